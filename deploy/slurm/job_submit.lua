-- Class defaults for new jobs: an interactive job need not wait for slurm-rl's next cycle.
-- And no place for another job than the one that was ranked: who makes a waiting job longer or
-- larger, or moves it to another partition or QOS, waits for the next cycle to place it anew.
--
-- Put this file beside slurm.conf as job_submit.lua and write JobSubmitPlugins=lua into slurm.conf.
-- IT MUST BE THERE WHENEVER slurmctld STARTS: without it slurmctld does not start at all.
-- The daemon keeps the table below fresh ([hook] class_defaults_file). No table, an old one, a
-- broken one or a fault in this script leaves the job as it was submitted, and it is accepted.
-- A site with a script of its own keeps that one and calls slurm_rl_class_defaults and
-- slurm_rl_lose_place in it; see docs/reserve-measured.md.

-- [hook] class_defaults_file of slurm-rl.toml. Its folder must be root's: Lua cannot tell a FIFO from
-- a file before it opens it, and there slurmctld would wait for good; `slurm-rl check` looks.
local TABLE = "/var/lib/slurm-rl-class-defaults/table"
-- Give batch jobs that name no QOS the one that [reserve] limits? Their users must be allowed it.
local GIVE_BATCH_QOS = false
-- Let batch jobs ask for a licence a processor, for [reserve] mechanism = "licenses"?
local GIVE_LICENSES = false

local VERSION = "slurm-rl-class-defaults 1"
local LARGEST = 65536 -- bytes; a larger file is none of ours
local LONGEST_NAMED = 1000 -- bytes of what a job names of partitions or QOS; more is not looked through
local LARGEST_FACTOR = 2147483645
local UNLIMITED, NO_VALUE, NO_VALUE_16 = 4294967295, 4294967294, 65534

-- The text of the table; nil where there is none or it is no table of ours.
local function text_of_table()
  local file = io.open(TABLE, "r")
  if file == nil then return nil end
  local text = file:read(LARGEST + 1)
  file:close()
  if text == nil or #text > LARGEST then return nil end
  return text
end

-- What the table says; nil where it must not be heeded.
local function read_table()
  local text = text_of_table()
  if text == nil or text:sub(1, #VERSION + 1) ~= VERSION .. "\n" then return nil end
  local found, complete = {rules = {}}, false
  for line in text:gmatch("[^\n]+") do
    local key, value = line:match("^(%S+) ?(.*)$")
    if key == "rule" then found.rules[#found.rules + 1] = value
    elseif key == "end" then complete = true
    elseif key ~= nil then found[key] = value end
  end
  local now, from, til = os.time(), tonumber(found.from), tonumber(found["until"])
  if not complete or from == nil or til == nil or now < from - 60 or now > til then return nil end
  return found
end

-- Whether every one of the named (a,b) is among the names: -p debug,batch is not debug. For a rule of
-- another class whether one of them is: it is batch. Nil where too many are named.
local function are_among(named, names, class)
  named, names = named or "", "," .. names .. ","
  if #named > LONGEST_NAMED then return nil end
  local any, all = false, true
  for name in named:gmatch("[^,]+") do
    local one = names:find("," .. name .. ",", 1, true) ~= nil
    any, all = any or one, all and one
  end
  if class == "interactive" then return any and all end
  return any
end

local function partition_of(job, partitions)
  if job.partition ~= nil then return job.partition end
  for name, partition in pairs(partitions) do
    if partition.flag_default == 1 then return name end
  end
  return nil
end

-- Whether one condition of a rule holds; nil for one that this script does not know.
local function holds(key, value, class, job, partition)
  if key == "partition" then return are_among(partition, value, class) end
  if key == "qos" then return are_among(job.qos, value, class) end
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
    for word in conditions:gmatch("%S+") do -- a word at a time: a long one must not cost its square
      local mark = word:find("=", 1, true)
      local one = mark and holds(word:sub(1, mark - 1), word:sub(mark + 1), class, job, partition)
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
    if factor ~= nil and factor > 0 and factor <= LARGEST_FACTOR then
      job.site_factor = math.floor(factor)
    end
  elseif class == "batch" then
    if GIVE_BATCH_QOS and found.batch_qos ~= nil and job.qos == nil then job.qos = found.batch_qos end
    if GIVE_LICENSES and found.batch_license ~= nil and job.licenses == nil then
      -- newer Luas would write 4.0, which is no count of licences
      job.licenses = string.format("%s:%d", found.batch_license, processors_of(job))
    end
  end
end

-- What an update may make larger, with what Slurm writes where it says nothing of it.
local GROWS = {
  {"time_limit", NO_VALUE}, {"min_cpus", NO_VALUE}, {"min_nodes", NO_VALUE},
  {"pn_min_cpus", NO_VALUE_16},
}
-- Memory; nothing stands there where an update says nothing of it, and 0 is all that nodes have.
local MEMORY = {"min_mem_per_node", "min_mem_per_cpu"}
-- The same, where the job's record does not tell what it is now.
local UNTOLD = {{"num_tasks", NO_VALUE}, {"cpus_per_task", NO_VALUE_16}}
local NAMES = {
  "partition", "qos", "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task",
}

-- Whether an update makes another job of it: longer or larger, or elsewhere. Not a shorter or
-- smaller one, which stands no worse for it.
local function is_more(update, record)
  for _, field in ipairs(GROWS) do
    local value = update[field[1]]
    if value ~= nil and value ~= field[2] and value > (record[field[1]] or 0) then return true end
  end
  for _, name in ipairs(MEMORY) do
    local value, now = update[name], record[name]
    if value ~= nil and value ~= now and (value == 0 or value > (now or 0)) then return true end
  end
  for _, field in ipairs(UNTOLD) do
    local value = update[field[1]]
    if value ~= nil and value ~= field[2] then return true end
  end
  for _, name in ipairs(NAMES) do
    local value = update[name]
    if value ~= nil and value ~= record[name] then return true end
  end
  return false
end

-- Whether Slurm goes through several records with this update, or may do so. It would take the
-- factor that the first one leaves in the update for one that the user asked for, and refuse.
local function has_siblings(record)
  local array, het = record.array_job_id or 0, record.het_job_id or 0
  if het ~= 0 then return true end
  if array == 0 then return false end
  for _, other in pairs(slurm.jobs or {}) do
    if other.array_job_id == array and other.job_id ~= record.job_id then return true end
  end
  return false
end

local function lose_place(update, record, uid)
  -- what an operator writes himself is set behind our back, so a write of the daemon stands
  if uid == 0 or not is_more(update, record) then return end
  local factor = record.site_factor
  if record.job_state ~= 0 or factor == nil or factor <= 0 or factor == NO_VALUE then return end
  if not has_siblings(record) then update.site_factor = 0 end
end

-- For a script of the site's own. Neither ever raises.
function slurm_rl_class_defaults(job, partitions)
  local fine, fault = pcall(give, job, partitions)
  if not fine then slurm.log_info("slurm-rl: class defaults: %s", tostring(fault)) end
end

function slurm_rl_lose_place(update, record, uid)
  local fine, fault = pcall(lose_place, update, record, uid)
  if not fine then slurm.log_info("slurm-rl: place of a changed job: %s", tostring(fault)) end
end

function slurm_job_submit(job, partitions, uid)
  slurm_rl_class_defaults(job, partitions)
  return slurm.SUCCESS
end

-- slurmctld calls this at every write of a factor too, which changes none of these fields.
function slurm_job_modify(job, record, partitions, uid)
  slurm_rl_lose_place(job, record, uid)
  return slurm.SUCCESS
end
