
# Lock names, from the server.
_fencepost_lock_names() {
    local -a names
    names=("${(@f)$(fencepost complete-names -- "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    names=(${names:#})
    (( $#names )) && compadd -a names
}
