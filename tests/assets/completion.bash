set -u
source "$1"; shift
[[ $(complete -p slurm-rl) == *" -F _shtab_slurm_rl slurm-rl" ]] || exit 1
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_shtab_slurm_rl slurm-rl "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}"
