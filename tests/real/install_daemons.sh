#!/bin/sh
# Installs the daemons that tests/real run as private children: munge, MariaDB, Slurm, Prometheus;
# what tries our package and its files: systemd's tools, a container to boot, logrotate, linters;
# and what tries our pages: Chromium with its driver, Apache, Ruby for Open OnDemand's partial.
# Debian and Ubuntu, as root. Starts no service and is quick when everything is there already.
set -eu

programs="munged mariadbd mariadb-install-db slurmdbd slurmctld slurmd sacctmgr prometheus promtool
    systemd-analyze systemd-nspawn logrotate man mandoc lintian debootstrap ansible-playbook zsh chromium chromedriver apache2 ruby"
packages="munge mariadb-server slurmdbd slurmctld slurmd slurm-client
    slurm-wlm-basic-plugins slurm-wlm-mysql-plugin prometheus
    systemd systemd-container logrotate man-db mandoc lintian debootstrap debian-archive-keyring
    bash-completion python3-venv ansible-core python3-apt zsh
    chromium chromium-driver apache2 ruby"

PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
missing=
for program in $programs; do
    command -v "$program" >/dev/null || missing="$missing $program"
done
if [ -z "$missing" ]; then
    echo "everything is installed"
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "install munge, MariaDB, Slurm (slurmctld, slurmd, slurmdbd) and Prometheus" \
        "from your distribution to run tests/real; missing:$missing"
    exit 0
fi
if [ "$(id -u)" != 0 ]; then
    echo "run tests/real/install_daemons.sh as root to install:$missing"
    exit 0
fi

# Debian starts a service when it installs it, unless this file says no.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
# shellcheck disable=SC2086 # one word a package
apt-get install -y -q --no-install-recommends $packages
