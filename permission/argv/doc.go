// Package argv turns shell text into segments of literal tokens and matches them against token patterns.
//
// A command is lexed once with [Lex] (or [LexArgv], for a tool that takes an argument list) and a pattern is
// compiled once with [Compile] and kept in a [Table], which looks only at the patterns whose first word a command
// may have; a verdict over them is pure, costs microseconds, and grows with the length of the command alone.
// [Command.Match] speaks with allow, ask and deny tables, [Command.Chain] with deny and ask tables alone, as a
// permission chain does. Both return the strictest verdict over the segments, and say for each segment what decided.
//
// # Patterns
//
// A pattern is a list of shell words: a bare * is exactly one token, a bare ** (only last) is the rest, none
// included, and every other word is itself, with quotes removed. 'npm run *' matches npm run build, not
// npm run nor npm run build --prod. There are no prefixes: foo* is the four letters.
//
// # What it promises
//
// Allow is said only of text that bash and dash both split into the segments reported, with nothing in them
// that runs another command, and only if an allow pattern covers every token. Deny and ask patterns also
// look into subshells, loops and functions, behind sudo, doas, env, timeout, nice, nohup, time, xargs,
// find -exec and the -c text of a shell, at what eval, trap, alias and their like run, and at the base name of
// a path. What cannot be decided asks: a syntax error, a command substitution, a here-document, a word that may
// expand to a denied one.
//
// # What it does not promise
//
// Rules on tokens are policy, not containment: a deny of 'rm -rf **' says nothing about rm -fr, and what a
// script or another interpreter does is not seen. Text for cmd.exe or PowerShell must not be judged here.
package argv
