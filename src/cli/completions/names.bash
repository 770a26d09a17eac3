
# Lock names, from the server. Names are cut where readline begins a new word.
_fencepost_with_names() {
    _fencepost "$@"
    local line="${COMP_LINE:0:COMP_POINT}" word cut name
    local -a words after names
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    for word in "${words[@]}"; do
        if [[ -n ${after+set} ]]; then
            after+=("$word")
        elif [[ $word == "$1" ]]; then
            after=("--")
        fi
    done
    [[ -n ${after+set} && $word != -* ]] || return 0
    cut="${word%"${word##*[:=]}"}"
    while IFS= read -r name; do
        names+=("$(printf %q "${name#"$cut"}")")
    done < <("$1" complete-names "${after[@]}" 2>/dev/null)
    [[ ${#names[@]} -eq 0 ]] || COMPREPLY=("${names[@]}")
}
complete -F _fencepost_with_names -o nosort -o bashdefault -o default fencepost 2>/dev/null ||
    complete -F _fencepost_with_names -o bashdefault -o default fencepost
