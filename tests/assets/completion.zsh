fpath=(%s $fpath)
autoload -Uz compinit && compinit -D -u
compadd() {
    [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]] || {
        local -a hits
        builtin compadd -A hits "$@"
        (($#hits)) && print -rl -- $hits >>offered
    }
    builtin compadd "$@"
}
PS1=ready
