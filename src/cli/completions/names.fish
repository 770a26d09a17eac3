
# Lock names, from the server.
function __fencepost_lock_names
    set -l words (commandline -opc)
    fencepost complete-names -- $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c fencepost -f -n "test -n \"(__fencepost_lock_names)\"" -a "(__fencepost_lock_names)"
