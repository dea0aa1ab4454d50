package toolbox

import "github.com/assent-dev/assent/tool"

// FilesSet is the name under which the tools of Files are registered as a set.
const FilesSet = "files"

// Config configures All.
type Config struct {
	Shell ShellConfig
	Exec  ExecConfig
	Fetch FetchConfig
}

// All returns every tool of this package, in a fixed order. A bad configuration is a *fault.ConfigError.
func All(cfg Config) ([]*tool.Def, error) {
	shell, err := Shell(cfg.Shell)
	if err != nil {
		return nil, err
	}
	exec, err := Exec(cfg.Exec)
	if err != nil {
		return nil, err
	}
	fetch, err := Fetch(cfg.Fetch)
	if err != nil {
		return nil, err
	}
	return append(Files(), shell, exec, fetch, Escalate(), ReportProgress()), nil
}

// Files returns the file tools: list_files, read_file, search_files, write_file, edit_file and delete_file. They work
// below the working directory of the agent and reach nothing outside it, by no name and no symbolic link.
func Files() []*tool.Def {
	return []*tool.Def{
		tool.MustNew("list_files",
			"List one directory, sorted by name, with kind and size. At most 500 entries are returned; next, if present, is the cursor of the rest.",
			listFiles, tool.Read),
		tool.MustNew("read_file",
			"Read a file. Text is returned by lines, at most 2000 or 128 KiB at once; next, if present, is the offset of the rest. "+
				"A file that is not UTF-8 text is returned by bytes, in base64.",
			readFile, tool.Read),
		tool.MustNew("search_files",
			"Find the lines that hold a text, or match a regular expression, in all text files below a directory. "+
				"The directory .git, binary files and files over 8 MiB are not searched. At most 200 lines are returned.",
			searchFiles, tool.Read),
		tool.MustNew("write_file",
			"Write a whole file, creating it and its directories if they are missing. An existing file keeps its mode. .git cannot be written.",
			writeFile, tool.Write),
		tool.MustNew("edit_file",
			"Replace an exact text in a file. It must occur exactly once, unless all is true.",
			editFile, tool.Write),
		tool.MustNew("delete_file",
			"Delete one file or symbolic link. Directories are not deleted.",
			deleteFile, tool.Destructive),
	}
}
