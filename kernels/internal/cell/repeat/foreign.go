package repeat

import (
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// What is known of the functions and methods of packages: the lists name those that
// may be called again, so that what is not known is never run again by itself.

var (
	// computing are packages whose functions only compute, and whose methods change at
	// most what they are methods of; but see foreign for those that read or write
	// something, and changes for those that change an argument.
	computing = strings.Fields(`bytes cmp container/list container/ring encoding/base64 encoding/hex
		errors hash hash/crc32 hash/fnv html image/color maps math math/big
		math/bits math/cmplx net/url path regexp slices sort strconv strings unicode unicode/utf16 unicode/utf8
		crypto/md5 crypto/sha1 crypto/sha256 crypto/sha512`)

	// building are functions and methods of other packages that only make something.
	// (T[O]DO is context's: the word itself marks unfinished code, for those who search.)
	building = map[string]*regexp.Regexp{
		"bufio":           regexp.MustCompile(`^New`),
		"context":         regexp.MustCompile(`^(Background|T[O]DO|WithValue|WithoutCancel)$`),
		"encoding/binary": regexp.MustCompile(`^(Size|Uvarint|Varint|Append(Uvarint|Varint)?)$`),
		"encoding/csv":    regexp.MustCompile(`^New`),
		"encoding/json":   regexp.MustCompile(`^(New(De|En)coder|Marshal(Indent)?|Unmarshal|Valid)$`),
		"encoding/xml":    regexp.MustCompile(`^(New(De|En)coder|Marshal(Indent)?|Unmarshal)$`),
		"fmt":             regexp.MustCompile(`^(Sprint(f|ln)?|Errorf|Append(f|ln)?)$`),
		"go/ast":          regexp.MustCompile(`^(NewIdent|NewObj|NewScope|IsExported|IsGenerated|Unparen)$`),
		"go/token":        regexp.MustCompile(`^(NewFileSet|IsExported|IsIdentifier|IsKeyword|Lookup)$`),
		"html/template":   regexp.MustCompile(`^(New|Must|Funcs|Parse|Option|Delims|Lookup|HTMLEscape(String|er)|JSEscape(String|er)|URLQueryEscaper)$`),
		"image":           regexp.MustCompile(`^(New.*|Pt|Rect|ZR|ZP)$`),
		"log":             regexp.MustCompile(`^(New|Default)$`),
		"log/slog": regexp.MustCompile(`^(New|New(Text|JSON|Multi)Handler|NewRecord|NewLogLogger|Default|With|WithGroup|WithAttrs|Handler|DiscardHandler|GroupAttrs` +
			`|(Any|Bool|Duration|Float64|Group|Int|Int64|String|Time|Uint64)(Value)?)$`),
		"math/rand":      regexp.MustCompile(`^New`),
		"math/rand/v2":   regexp.MustCompile(`^New`),
		"net/http":       regexp.MustCompile(`^(New(ServeMux|Request|RequestWithContext)|FileServer(FS)?|StripPrefix|NotFoundHandler|RedirectHandler|TimeoutHandler)$`),
		"os":             regexp.MustCompile(`^(DirFS)$`),
		"path/filepath":  regexp.MustCompile(`^(Base|Clean|Dir|Ext|Join|Split|ToSlash|FromSlash)$`),
		"reflect":        regexp.MustCompile(`^(TypeOf|TypeFor|ValueOf|Kind|Elem|Name|String)$`),
		"text/tabwriter": regexp.MustCompile(`^NewWriter$`),
		"text/template":  regexp.MustCompile(`^(New|Must|Funcs|Parse|Option|Delims|Lookup)$`),
		"time":           regexp.MustCompile(`^(Date|Unix|UnixMilli|UnixMicro|FixedZone|ParseDuration|Parse|ParseInLocation)$`),
	}

	// changing are functions that change what their first argument holds. The second
	// is it of Unmarshal and errors.As.
	changing = map[string]*regexp.Regexp{
		"bytes":           regexp.MustCompile(`^Read(At)?$`),
		"encoding/base64": regexp.MustCompile(`^(En|De)code$`),
		"encoding/hex":    regexp.MustCompile(`^(En|De)code$`),
		"math/big":        regexp.MustCompile(`^(FillBytes|GCD)$`),
		"strings":         regexp.MustCompile(`^Read(At)?$`),
		"maps":            regexp.MustCompile(`^(Copy|DeleteFunc|Insert)$`),
		"slices":          regexp.MustCompile(`^(Sort(Func|StableFunc)?|Reverse|Delete(Func)?|Insert|Replace|Compact(Func)?)$`),
		"sort":            regexp.MustCompile(`^(Ints|Float64s|Strings|Slice(Stable)?|Sort|Stable)$`),
		"unicode/utf8":    regexp.MustCompile(`^EncodeRune$`),
	}

	// definitions are the library's packages that define and do nothing.
	definitions = regexp.MustCompile(`/lib/(models|losses|optim|metrics|datasets|data|hub|onnx|weights|runs|sampling|fused|engine/triton|report)(/|$)`)

	// values are those of them whose methods leave what they are methods of as it is, but for
	// Next of a plateau.
	values = regexp.MustCompile(`/lib/(models|losses|optim|metrics|datasets|data|hub|onnx|weights)$`)

	// handles are the library's functions and methods that name what the session has.
	handles = regexp.MustCompile(`^(New.*|Open|Data|Session|Backend|Name|Model|Config)$`)

	// effects are functions of such packages, and of GoMLX's, that do more.
	effects = regexp.MustCompile(`^(Show|Begin|Fit|Devices|Print|Write|Save|Measure|Run|Start|Live|Load|Done|Download|Delete|Remove|Close|Finalize|Log)`)

	makes = regexp.MustCompile(`^(New|Must|Default|With)`)
)

// changes returns the index of the argument whose contents a function of a package
// changes, -1 if it leaves them as they are.
func changes(f *types.Func) int {
	if f.Pkg() == nil {
		return -1
	}
	path, name := f.Pkg().Path(), f.Name()
	switch re := changing[path]; {
	case re != nil && re.MatchString(name):
		return 0
	case name == "Unmarshal" && strings.HasPrefix(path, "encoding/"), path == "errors" && name == "As":
		return 1
	case path == "math/big" && (name == "QuoRem" || name == "DivMod"):
		return 2
	}
	return -1
}

// streams reports whether a function is given something to read from or to write to.
func streams(f *types.Func) bool {
	for v := range f.Signature().Params().Variables() {
		i, ok := v.Type().Underlying().(*types.Interface)
		if _, generic := v.Type().(*types.TypeParam); !ok || generic {
			continue
		}
		for m := range i.Methods() {
			if strings.HasPrefix(m.Name(), "Read") || strings.HasPrefix(m.Name(), "Write") {
				return true
			}
		}
	}
	return false
}

// foreign judges the functions and methods of packages. fresh says that the value
// which a method is called of is nobody's variable.
func (p *repeater) foreign(f *types.Func, fresh bool) bool {
	path, name := f.Pkg().Path(), f.Name()
	method := f.Signature().Recv() != nil
	switch {
	case path == "cell/gaidenstack": // must calls it
		return true
	case p.ours(path):
		if definitions.MatchString(path) {
			return !effects.MatchString(name) && (!method || fresh || values.MatchString(path) && name != "Next")
		}
		return handles.MatchString(name)
	case strings.HasPrefix(path, "github.com/gomlx/"):
		return makes.MatchString(name) || method && fresh && !effects.MatchString(name)
	case method && !fresh:
		return false
	case slices.Contains(computing, path):
		return !streams(f) || makes.MatchString(name)
	}
	return building[path] != nil && building[path].MatchString(name)
}
