#!/bin/sh
# Builds the Debian package of this checkout (and by deploy/rpm/build.sh the RPM): code, models and every Python package
# that the daemon needs, in /opt/slurm-rl; nothing is downloaded when it is installed. On Debian, with python3-venv;
# needs no root.
#
#   deploy/debian/build.sh [FOLDER]     dist by default; prints the path of the package, and on stderr what it does
#
# The package fits the machine it was built on: the minor release of its /usr/bin/python3, and its processors, unless
# ARCHITECTURE=amd64 or ARCHITECTURE=arm64 names others.
# Two builds of one commit on one release of Debian give the same bytes: versions and hashes are those of the
# folder requirements, and every time is that of the commit, or SOURCE_DATE_EPOCH where it is set.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
folder=${1:-$top/dist}
# The distribution's, as the package depends on it; another one in PATH would not be on the head node.
python=${PYTHON:-/usr/bin/python3}
format=${SLURM_RL_FORMAT:-deb}
architecture=${ARCHITECTURE:-$(uname -m)}
prefix=/opt/slurm-rl
maintainer="${DEBFULLNAME:-slurm_rl_plugin} <${DEBEMAIL:-root@localhost}>"

main() {
    [ "$format" = rpm ] && packer=rpmbuild || packer=dpkg-deb
    for program in "$python" "$packer"; do
        command -v "$program" >/dev/null || stop "$program is missing: install it, or build the package where it is"
    done
    "$python" -c 'import ensurepip' 2>/dev/null || stop "install python3-venv (on RHEL: python3-pip), then try again"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        stop "$python is older than 3.11: name a newer one by PYTHON=/usr/bin/python3.11"
    case $architecture in
        amd64 | x86_64) debian=amd64 machine=x86_64 ;;
        arm64 | aarch64) debian=arm64 machine=aarch64 ;;
        *) stop "there are packages for amd64 and arm64, none for $architecture" ;;
    esac
    [ "$format" = rpm ] && architecture=$machine || architecture=$debian
    umask 022
    export LC_ALL=C.UTF-8 PYTHONHASHSEED=0 PIP_DISABLE_PIP_VERSION_CHECK=1
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM
    root=$work/root
    step 1 "copies the source"
    copy_source
    step 2 "installs the Python packages for $architecture"
    install_python
    step 3 "makes manual pages and completions"
    make_pages
    step 4 "collects files and the bill of materials"
    install_files
    write_documents
    write_bill_of_materials
    step 5 "packs"
    mkdir -p "$folder"
    if [ "$format" = rpm ]; then
        pack_rpm
        package=$folder/slurm-rl-$version-1.$architecture.rpm
    else
        write_control
        pack
        package=$folder/slurm-rl_${version}_$architecture.deb
    fi
    mv "$work/part.$format" "$package"
    echo "$package"
}

# rpm calls scripts with the number of versions that will be left; dpkg's scripts know words.
pack_rpm() {
    find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    mkdir "$work/scripts"
    rpm_script pre prerm '[ "$1" -gt 1 ] || exit 0; set -- upgrade'
    rpm_script post postinst 'set -- configure'
    rpm_script preun prerm '[ "$1" -eq 0 ] || exit 0; set -- remove'
    rpm_script postun postrm '[ "$1" -eq 0 ] || exit 0; set -- remove'
    rpmbuild -bb --quiet --target "$architecture" --define "_topdir $work/rpm" --define "tree $root" \
        --define "scripts $work/scripts" --define "python $(readlink -f "$python")" --define "build_version $version" \
        "$work/source/deploy/rpm/slurm-rl.spec"
    mv "$work"/rpm/RPMS/*/*.rpm "$work/part.rpm"
}

rpm_script() { # NAME SCRIPT WORDS
    { echo "$3"; sed 1d "$work/source/deploy/debian/$2"; } >"$work/scripts/$1"
}

# The bytes must not depend on when and where the files were made, nor on how many processors compress them.
pack() {
    find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group --threads-max=1 -Zxz --build "$root" "$work/part.deb" >/dev/null
}

step() {
    echo "deploy/debian/build.sh: step $1 of 5: $2" >&2
}

stop() {
    echo "deploy/debian/build.sh: $*" >&2
    exit 1
}

# pip builds inside the folder it is given, and takes what an earlier build left there.
copy_source() {
    mkdir "$work/source"
    (cd "$top" && tar -c --exclude=__pycache__ --exclude='*.nb[ic]' setup.py pyproject.toml README.md \
        LICENSE CHANGELOG.md slurm_rl_plugin policy_models deploy requirements) | tar -x -C "$work/source"
    release=$(sed -n 's/^RELEASE = "\(.*\)"/\1/p' "$work/source/slurm_rl_plugin/__init__.py")
    day=$(sed -n "s/^## \\[$release\\] - //p" "$top/CHANGELOG.md")
    SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct 2>/dev/null || date --utc --date="$day" +%s)}
    export SOURCE_DATE_EPOCH
}

install_python() {
    "$python" -m venv "$work/tools"
    "$work/tools/bin/pip" install --quiet -r "$work/source/requirements/build.txt"
    # The copy has no git; Debian sorts 0.2.0~dev9 before 0.2.0.
    SLURM_RL_VERSION=$("$work/tools/bin/python" "$top/setup.py" --version)
    export SLURM_RL_VERSION
    version=$(echo "$SLURM_RL_VERSION" | sed 's/\.dev/~dev/')
    "$python" -m venv --without-pip "$root$prefix"
    "$work/tools/bin/pip" install --quiet -r "$work/source/requirements/tools.txt"
    SLURM_RL_PAPERS=no "$work/tools/bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work" "$work/source"
    # By name, not by what runs here: a package for other processors is built the same way.
    site=$("$root$prefix/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    platforms=
    for minor in $(seq "$(getconf GNU_LIBC_VERSION | cut -d. -f2)" -1 17); do
        platforms="$platforms --platform manylinux_2_${minor}_$machine"
    done
    "$work/tools/bin/pip" --python "$root$prefix/bin/python" install --quiet --no-compile $platforms \
        --platform "manylinux2014_$machine" --only-binary :all: --target "$site" \
        --report "$work/report.json" -r "$work/source/requirements/runtime.txt"
    rm -rf "$site/bin"
    "$work/tools/bin/pip" --python "$root$prefix/bin/python" install --quiet --no-compile \
        --no-warn-script-location --no-deps "$work"/slurm_rl_plugin-*.whl
    # Files that only work, or only matter, where they were built.
    find "$root$prefix/bin" -type f ! -name slurm-rl -delete
    sed -i "1s,.*,#!$prefix/bin/python," "$root$prefix/bin/slurm-rl"
    sed -i '/^command = /d' "$root$prefix/pyvenv.cfg"
    find "$root$prefix" -path '*.dist-info/*' '(' -name direct_url.json -o -name RECORD ')' -delete
    find "$root$prefix/lib" -type d '(' -name tests -o -name testdata ')' -prune -exec rm -rf {} +
    find "$root$prefix/lib" -type f -exec chmod 644 {} +
    # Otherwise Python writes these when root runs it, and a removal leaves them.
    "$python" -m compileall -q -s "$root" -p / --invalidation-mode unchecked-hash "$root$prefix/lib"
}

# The parsers of all verbs need the packages of training. A checkout in which `make test` ran has them; Debian's
# Python takes them from there if it can and the version of shtab is the locked one, as both shape the pages.
make_pages() {
    maker=$python
    shtab=$(sed -n 's/^shtab==\([^ ]*\).*/\1/p' "$work/source/requirements/test.txt")
    parts='import sys; print(":".join(each for each in sys.path if "site-packages" in each))'
    packages=$("$top/.venv/bin/python" -c "$parts" 2>/dev/null || true)
    can='import numba, polars, importlib.metadata; print(importlib.metadata.version("shtab"))'
    if [ "$(PYTHONPATH=$packages "$maker" -c "$can" 2>/dev/null)" != "$shtab" ]; then
        maker=$work/tools/bin/python packages=
        "$work/tools/bin/pip" install --quiet -r "$work/source/requirements/test.txt"
    fi
    (cd "$work/source" && PYTHONPATH=$packages PYTHONDONTWRITEBYTECODE=1 "$maker" -m slurm_rl_plugin.cli.generated "$work/pages" "$day")
}

install_files() {
    deploy=$work/source/deploy
    put() { # SOURCE FOLDER [NAME]
        mkdir -p "$root$2"
        install -m 644 "$1" "$root$2/${3:-$(basename "$1")}"
    }
    mkdir -p "$root/usr/bin"
    ln -s "$prefix/bin/slurm-rl" "$root/usr/bin/slurm-rl"
    for unit in "$deploy"/systemd/*; do
        put "$unit" /lib/systemd/system
    done
    put "$deploy/sysusers.d/slurm-rl.conf" /usr/lib/sysusers.d
    put "$deploy/tmpfiles.d/slurm-rl.conf" /usr/lib/tmpfiles.d
    put "$deploy/logrotate.d/slurm-rl" /etc/logrotate.d
    put "$work/pages/completion/slurm-rl" /usr/share/bash-completion/completions
    put "$work/pages/completion/_slurm-rl" /usr/share/zsh/vendor-completions
    for page in "$work"/pages/man/*.[1-8]; do
        put "$page" "/usr/share/man/man${page##*.}"
        gzip -9n "$root/usr/share/man/man${page##*.}/$(basename "$page")"
    done
    # Grafana's provisioning file looks for them here.
    for dashboard in "$deploy"/grafana/*.json; do
        put "$dashboard" /usr/share/slurm-rl/grafana
    done
    for settings in "$deploy"/grafana/provisioning/*/*.yml; do
        put "$settings" "/usr/share/slurm-rl/grafana/provisioning/$(basename "$(dirname "$settings")")"
    done
    for rules in "$deploy"/prometheus/*.yml; do
        put "$rules" /usr/share/slurm-rl/prometheus
    done
    # Which a site copies to its portal.
    for part in "$deploy"/open_ondemand/*; do
        put "$part" /usr/share/slurm-rl/open_ondemand
    done
    put "$deploy/slurm-rl.toml" /etc/slurm-rl
}

write_documents() {
    put "$work/source/deploy/debian/copyright" /usr/share/doc/slurm-rl
    put "$work/source/CHANGELOG.md" /usr/share/doc/slurm-rl
    {
        echo "slurm-rl ($version) stable; urgency=medium"
        printf '\n  * CHANGELOG.md lists what changed.\n\n'
        echo " -- $maintainer  $(date --utc --rfc-email --date="$day")"
    } >"$root/usr/share/doc/slurm-rl/changelog"
    gzip -9n "$root/usr/share/doc/slurm-rl/changelog" "$root/usr/share/doc/slurm-rl/CHANGELOG.md"
    put "$work/source/deploy/debian/lintian-overrides" /usr/share/lintian/overrides slurm-rl
}

# The contents of the package, with versions, hashes and licenses.
write_bill_of_materials() {
    "$work/tools/bin/cyclonedx-py" environment --output-reproducible --output-file "$work/parts.json" \
        "$root$prefix/bin/python"
    "$work/tools/bin/python" "$work/source/deploy/debian/bill_of_materials.py" "$work/parts.json" \
        "$work/report.json" "$root$prefix/lib" "$root/usr/share/doc/slurm-rl"
}

write_control() {
    control=$root/DEBIAN
    mkdir "$control"
    minor=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    next=$("$python" -c 'import sys; print("%d.%d" % (sys.version_info[0], sys.version_info[1] + 1))')
    sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" \
        -e "s/@PYTHON@/$minor/" -e "s/@NEXT_PYTHON@/$next/" \
        -e "s/@MAINTAINER@/$maintainer/" -e "s/@SIZE@/$(size)/" \
        "$work/source/deploy/debian/control.in" >"$control/control"
    for script in postinst prerm postrm; do
        install -m 755 "$work/source/deploy/debian/$script" "$control/$script"
    done
    (cd "$root" && find etc -type f | sed 's,^,/,' | sort) >"$control/conffiles"
    (cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | sort | xargs -d '\n' md5sum) \
        >"$control/md5sums"
}

# In KiB, file by file: what `du` says depends on the file system of the build.
size() {
    find "$root" -path "$control" -prune -o -printf '%y %s\n' |
        awk '{ total += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print total }'
}

main
