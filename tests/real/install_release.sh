#!/bin/sh
# Another release of Slurm, from a newer suite of Debian, in a folder of its own: nothing of this
# machine changes and no service starts. On Debian, as root; wants 1 GB and a minute or two.
#
#   tests/real/install_release.sh trixie|forky [FOLDER]             24.11 or 26.05
#   tests/real/install_release.sh bookworm [FOLDER]                 none: to try our own package in
#   tests/real/install_release.sh --remove trixie|forky|bookworm [FOLDER]
#
# A finished folder is used again. FOLDER is by default in the user's cache.
set -eu

PACKAGES="slurmctld slurmd slurmdbd slurm-client slurm-wlm-basic-plugins slurm-wlm-mysql-plugin
    munge mariadb-server"
# What our own package wants of a machine, and what reads its files.
PACKAGE_ROOT="python3 procps python3-venv adduser systemd systemd-sysv dbus man-db logrotate bash-completion"
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
# Written last, so it tells a finished folder of ours. Holds the release, such as 24.11, or "none".
MARK=slurm-release

main() {
    task=install
    if [ "${1:-}" = --remove ]; then
        task=remove
        shift
    fi
    suite=${1:-}
    case $suite in
    trixie | forky) ;;
    bookworm) PACKAGES=$PACKAGE_ROOT ;;
    *) stop "usage: install_release.sh [--remove] trixie|forky|bookworm [FOLDER]" ;;
    esac
    folder=${2:-${XDG_CACHE_HOME:-$HOME/.cache}/slurm-rl-plugin/releases/$suite}
    if [ "$task" = install ] && [ -e "$folder/$MARK" ]; then
        say_where
        exit 0
    fi
    [ "$(id -u)" = 0 ] || stop "run tests/real/install_release.sh $suite as root"
    mkdir -p "$(dirname "$folder")"
    exec 9>"$folder.lock"
    flock 9 # two runs of the tests may want it at the same time
    "$task"
}

stop() {
    echo "$*" >&2
    exit 1
}

say_where() {
    echo "Slurm $(cat "$folder/$MARK") of $suite is in $folder"
}

install() {
    if [ -e "$folder/$MARK" ]; then # the one that we waited for has made it
        say_where
        return
    fi
    [ ! -e "$folder" ] || stop "$folder is there, but this script did not finish it"
    if ! command -v debootstrap >/dev/null || [ ! -e "$KEYRING" ]; then
        apt-get update -q
        apt-get install -y -q --no-install-recommends debootstrap debian-archive-keyring
    fi
    mirror=$(debian_mirror)
    [ -n "$mirror" ] || stop "apt knows no archive of Debian: set SLURM_RL_DEBIAN_MIRROR to one"
    part=$folder.part
    rm -rf --one-file-system "$part" # of a run that was interrupted
    # Every suite is made like sid; an older debootstrap does not know the newest by name.
    debootstrap --variant=minbase --include=ca-certificates --keyring="$KEYRING" \
        "$suite" "$part" "$mirror" /usr/share/debootstrap/scripts/sid
    install_packages
    [ "$suite" = bookworm ] || take_older_libmariadb
    rm -rf "$part"/var/cache/apt/*.bin "$part"/var/cache/apt/archives/*.deb
    umount "$part/proc"
    slurm_of_root >"$part/$MARK"
    mv "$part" "$folder"
    say_where
}

# The archive that this machine's own apt installs from.
debian_mirror() {
    if [ -n "${SLURM_RL_DEBIAN_MIRROR:-}" ]; then
        echo "$SLURM_RL_DEBIAN_MIRROR"
        return
    fi
    # shellcheck disable=SC2016 # fields of apt's
    apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(COMPONENT) $(REPO_URI)' \
        'Created-By: Packages' |
        awk '$1 == "Debian" && $2 !~ /-/ && $3 == "main" { print $4; exit }'
}

slurm_of_root() {
    # shellcheck disable=SC2016 # a field of dpkg's
    version=$(chroot "$part" dpkg-query -W -f '${Version}' slurmctld 2>/dev/null) || version=none
    echo "$version" | sed -E 's/^([0-9]+\.[0-9]+).*/\1/'
}

install_packages() {
    mount -t proc proc "$part/proc" # without it MariaDB's installation fails
    printf '#!/bin/sh\nexit 101\n' >"$part/usr/sbin/policy-rc.d" # no service starts
    chmod 755 "$part/usr/sbin/policy-rc.d"
    # shellcheck disable=SC2086 # one word a package
    chroot "$part" apt-get install -y -q --no-install-recommends $PACKAGES
}

# Since 11.8.9, in trixie and forky, it makes slurmdbd stop: "Number of columns in result (=1) set
# exceeds".
take_older_libmariadb() {
    list=/etc/apt/bookworm.list
    echo "deb $mirror bookworm main" >"$part$list"
    set -- -q -o "Dir::Etc::SourceList=$list" -o Dir::Etc::SourceParts=- \
        -o Dir::State::Lists=/var/lib/apt/bookworm -o APT::Sandbox::User=root
    mkdir -p "$part/var/lib/apt/bookworm" "$part/opt/bookworm"
    chroot "$part" apt-get "$@" update
    chroot "$part" sh -c 'cd /opt/bookworm && exec apt-get "$@"' sh "$@" download libmariadb3/bookworm
    chroot "$part" sh -c 'cd /opt/bookworm && dpkg-deb -x libmariadb3_*.deb . && rm -- *.deb'
}

remove() {
    rm -rf --one-file-system "$folder.part"
    if [ -e "$folder" ]; then
        [ -e "$folder/$MARK" ] || stop "$folder was not made by this script: not removed"
        for root in /proc/[0-9]*/root; do
            [ "$(readlink "$root")" != "$(realpath "$folder")" ] ||
                stop "process ${root%/root} runs in $folder: not removed"
        done
        rm -rf --one-file-system "$folder"
    fi
    rm -f "$folder.lock"
}

# debootstrap, chroot and useradd are in the later folders.
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
# What is mounted here ends with this shell, however it ends; the machine never sees it.
if [ -z "${MOUNTS_ARE_PRIVATE:-}" ] && [ "$(id -u)" = 0 ]; then
    MOUNTS_ARE_PRIVATE=yes exec unshare --mount "$0" "$@"
fi
main "$@"
