// Package exit is the voice of the commands: `error:` and `hint:` lines on standard error, and an exit code.
//
// An error carries its code and its hint with it, so that one place prints and decides, and nothing below a main ever
// ends the process. Commands wrap what they know more about; everything else is a plain failure.
package exit
