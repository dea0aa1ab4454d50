# Ends a tree of processes when the worker that started it is gone. Standard input is a pipe that only the worker can
# write to: a line with the process id of the head, then "done" when the tree has ended. If it closes before, the
# worker has died. $1 is the mark that every process of the tree has in its environment, and this shell has not.
trap '' HUP INT TERM
mark=$1 head=
while read -r line; do
	[ "$line" = done ] && exit 0
	head=$line
done

# A grep that reads past NUL bytes is fast; the shell itself reads byte by byte.
fast=
printf 'x\0%s' "$mark" | grep -qF -e "$mark" 2>/dev/null && fast=1

marked() {
	if [ "$fast" ]; then
		grep -lsF -e "$mark" /proc/[0-9]*/environ
		return
	fi
	for f in /proc/[0-9]*/environ; do
		while IFS= read -r text || [ "$text" ]; do
			case $text in *"$mark"*) echo "$f" && break ;; esac
		done <"$f"
	done
}

# Those of the session of the head, whatever their environment.
members() {
	[ "$head" ] || return 0
	for f in /proc/[0-9]*/stat; do
		read -r text <"$f" || continue
		set -- ${text##*) }
		[ "$4" = "$head" ] && [ "$1" != Z ] && echo "$f"
	done
}

# What a dying process still starts is found by the next look. So is one that is just becoming another program: on a busy
# machine it has no environment for a while. The end is that two looks, some time apart, find nothing.
round=0 empty=0
while [ "$round" -lt 60 ]; do
	[ "$head" ] && kill -KILL "-$head"
	found=
	for f in $(members) $(marked); do
		pid=${f#/proc/}
		kill -KILL "${pid%/*}" && found=1
	done
	if [ "$found" ]; then
		empty=0
	else
		empty=$((empty + 1))
		[ "$empty" -ge 2 ] && exit 0
		sleep 0.5 || sleep 1
	fi
	round=$((round + 1))
	[ "$round" -gt 5 ] && sleep 1
done 2>/dev/null
