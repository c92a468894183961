-- Class defaults for new jobs: an interactive job need not wait for slurm-rl's next cycle.
--
-- Put this file beside slurm.conf as job_submit.lua and write JobSubmitPlugins=lua into slurm.conf.
-- IT MUST BE THERE WHENEVER slurmctld STARTS: without it slurmctld does not start at all.
-- The daemon keeps the table below fresh ([hook] class_defaults_file). No table, an old one, a
-- broken one or a fault in this script leaves the job as it was submitted, and it is accepted.
-- A site with a script of its own keeps that one and calls slurm_rl_class_defaults in it; see
-- docs/reserve-measured.md.

-- [hook] class_defaults_file of slurm-rl.toml.
local TABLE = "/var/lib/slurm-rl/class-defaults"
-- Give batch jobs that name no QOS the one that [reserve] limits? Their users must be allowed it.
local GIVE_BATCH_QOS = false
-- Let batch jobs ask for a licence a processor, for [reserve] mechanism = "licenses"?
local GIVE_LICENSES = false

local VERSION = "slurm-rl-class-defaults 1"
local LONGEST = 1000 -- lines; a longer file is none of ours
local UNLIMITED, NO_VALUE, NO_VALUE_16 = 4294967295, 4294967294, 65534

-- What the table says; nil where it must not be heeded.
local function read_table()
  local file = io.open(TABLE, "r")
  if file == nil then return nil end
  local found, complete, lines = {rules = {}}, false, 0
  if file:read("*l") == VERSION then
    for line in file:lines() do
      lines = lines + 1
      if lines > LONGEST then break end
      local key, value = line:match("^(%S+) ?(.*)$")
      if key == "rule" then found.rules[#found.rules + 1] = value
      elseif key == "end" then complete = true
      elseif key ~= nil then found[key] = value end
    end
  end
  file:close()
  local now, from, til = os.time(), tonumber(found.from), tonumber(found["until"])
  if not complete or from == nil or til == nil or now < from - 60 or now > til then return nil end
  return found
end

local function is_among(name, names)
  return name ~= nil and name ~= "" and ("," .. names .. ","):find("," .. name .. ",", 1, true) ~= nil
end

local function partition_of(job, partitions)
  if job.partition ~= nil then return job.partition end
  for name, partition in pairs(partitions) do
    if partition.flag_default == 1 then return name end
  end
  return nil
end

-- Whether one condition of a rule holds; nil for one that this script does not know.
local function holds(key, value, job, partition)
  if key == "partition" then return is_among(partition, value) end
  if key == "qos" then return is_among(job.qos, value) end
  if key == "no_batch_script" then return (job.script == nil) == (value == "yes") end
  if key == "time_limit_at_most" then
    local minutes = job.time_limit
    if minutes == nil or minutes == UNLIMITED or minutes == NO_VALUE then return false end
    return minutes * 60 <= tonumber(value)
  end
  return nil
end

-- The class by the first rule that matches, which may be "unknown"; nil where a rule cannot be told.
local function class_of(rules, job, partition)
  for _, rule in ipairs(rules) do
    local class, conditions = rule:match("^(%S+)(.*)$")
    local all = true
    for key, value in conditions:gmatch("(%S-)=(%S+)") do
      local one = holds(key, value, job, partition)
      if one == nil then return nil end
      all = all and one
    end
    if all then return class end
  end
  return "batch"
end

local function given(number)
  return number ~= nil and number > 0 and number < NO_VALUE and number ~= NO_VALUE_16
end

local function processors_of(job)
  local tasks = given(job.num_tasks) and job.num_tasks or 1
  local each = given(job.cpus_per_task) and job.cpus_per_task or 1
  local least = given(job.min_cpus) and job.min_cpus or 1
  return math.max(tasks * each, least)
end

local function give(job, partitions)
  local found = read_table()
  if found == nil then return end
  local class = class_of(found.rules, job, partition_of(job, partitions))
  if class == "interactive" then
    local factor = tonumber(found.factor)
    if factor ~= nil and factor > 0 then job.site_factor = factor end
  elseif class == "batch" then
    if GIVE_BATCH_QOS and found.batch_qos ~= nil and job.qos == nil then job.qos = found.batch_qos end
    if GIVE_LICENSES and found.batch_license ~= nil and job.licenses == nil then
      -- newer Luas would write 4.0, which is no count of licences
      job.licenses = string.format("%s:%d", found.batch_license, processors_of(job))
    end
  end
end

-- For a script of the site's own. Never raises.
function slurm_rl_class_defaults(job, partitions)
  local fine, fault = pcall(give, job, partitions)
  if not fine then slurm.log_info("slurm-rl: class defaults: %s", tostring(fault)) end
end

function slurm_job_submit(job, partitions, uid)
  slurm_rl_class_defaults(job, partitions)
  return slurm.SUCCESS
end

-- slurmctld calls this at every write of a factor: it must cost nothing.
function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end
