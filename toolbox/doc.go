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
// The default engine of shell interprets the command line in this process and enforces at run time: the Deny hook sees
// every command that is really executed, after expansion, and redirections, reading ones and sourced files included,
// reach files below the working directory and the TMPDIR of the call, and /dev/null. This is policy, not containment:
// what a program does by itself is not seen. The engine sh runs the real shell and enforces nothing.
//
// fetch makes HTTP requests. It judges the host of every redirect and every address of a host before it connects, and
// connects to nothing else than what it judged; addresses that are not public need an operator's leave.
//
// Workers register these tools; models read their names and arguments, which golden files freeze.
package toolbox
