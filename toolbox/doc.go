// Package toolbox holds the first-party tools: files, shell, exec, fetch, escalate and report_progress.
//
// Files, shell and exec work in the directory of the tool.Context. The file tools open below it with os.Root: an absolute path,
// a ".." and a symbolic link that leads out are refused, .git is never written in any spelling, and named pipes,
// devices and sockets are no files. Output is bounded, sorted and says what it left out.
//
// shell and exec start real programs. Every process of a call ends with the call, whether it returned, timed out or
// was cancelled: background jobs and descendants too. On Linux also those that left their process group or session
// are found, by a mark in their environment, and only one that clears it as well escapes; direct children die with
// the worker. On other systems every process that leaves its process group escapes.
//
// The default engine of shell interprets the command line in this process and enforces at run time; exec does so too. The
// deny rules of the call and the Deny hook see every command that is really executed, after expansion: behind wrappers
// such as env and timeout, in the text of sh -c, under the path of a program, the symbolic links to it, and with the
// interpreter that a script names. Where a wrapper cannot be read, each of its arguments counts as the program. Redirections,
// reading ones and sourced files included, reach files below the working directory and the TMPDIR of the call, and /dev/null.
// Aliases, job control and descriptors above 2 are refused with an error that names them.
//
// This is policy, not containment. Not seen is what a program does by itself: a script or text that another shell reads from
// a file, a pipe or a here-document, or puts together; what xargs reads; what awk, make or git run; a copy of a denied
// program, or a hard link to it, under another name; a file that is exchanged while its command starts. The engine sh
// runs the real shell and enforces nothing.
//
// Workers register these tools; models read their names and arguments, which golden files freeze.
package toolbox
