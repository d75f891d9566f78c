// Package cell makes programs of notebook cells and runs them.
//
// A cell is Go code: declarations, which later cells may use, and statements. Five
// packages have a part in it, and import only those before them:
//
//   - parse takes a cell apart, and says where something is wrong in it;
//   - process runs a program, and reads a panic;
//   - build compiles and links programs, and knows which packages there are;
//   - keep makes the source of a program, with what it needs of earlier cells
//     (package repeat says which initializers may be evaluated again);
//   - complete finds what a cell's text may continue with.
//
// This package itself holds the source of what programs are made of besides cells.
//
//	module := &build.Module{Dir: dir, Library: library, Cache: cache}
//	composer := &keep.Composer{Module: module, Memory: &keep.Memory{}}
//	builder := &build.Builder{Module: module, Store: &build.Store{Dir: cache}}
//
//	program, err := composer.Compose(ctx, parse.Source{ID: 1, Text: `fmt.Println("hello")`})
//	if err != nil {
//		return err // *parse.BuildError: "cell 1, line 1: undefined: …", with line and caret
//	}
//	binary, cost, err := builder.Build(ctx, &program.Program)
//	if err != nil {
//		return err
//	}
//	composer.Remember(program)
//	command := process.Command{Path: binary.Path, Go: true, Stdout: func(p []byte) { os.Stdout.Write(p) }}
//	exit, err := command.Run(ctx)
//	fmt.Println(cost) // compile 12ms · link 75ms (direct)
//
// Package cell refuses: other systems than Linux (process looks into /proc), and to
// guess what a broken cell might mean.
package cell
