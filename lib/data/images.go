package data

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"image"
	_ "image/gif"  // formats that Read knows
	_ "image/jpeg" //
	"image/png"
	"iter"
	"os"
	"path/filepath"
	"strings"
)

// Images reads a folder with a folder of PNG, JPEG or GIF files for each class. Photos are
// turned as their EXIF data say. What is transparent becomes black.
type Images struct {
	Height, Width int      // of all images, which are resized; default: those of the first one
	Gray          bool     // one channel, in place of red, green and blue
	Classes       []string // by label, such as those of the training images; default: the folders, in alphabetical order
}

// ImageSet is what Images has read, ordered by class and file.
type ImageSet struct {
	Examples                         // X: pixels [n height width channels]; Y: labels
	Classes                 []string // by label
	Files                   []string
	Height, Width, Channels int

	labels []int32 // of Files
}

// String describes the set.
func (s *ImageSet) String() string {
	return fmt.Sprintf("%d images, %d×%d×%d, %d classes", len(s.Files), s.Height, s.Width, s.Channels, len(s.Classes))
}

// Names are the classes of labels, such as a prediction's.
func (s *ImageSet) Names(labels []int32) []string { return namesOf(s.Classes, labels) }

const imageFiles = "PNG, JPEG or GIF files"

// Read reads the folder. A file that is not an image is an error, but for those whose names begin
// with a dot.
func (o Images) Read(dir string) (*ImageSet, error) {
	f, s, err := o.open(dir)
	if err != nil {
		return nil, err
	}
	s.Examples, err = s.read(f)
	return s, err
}

// Stream reads the folder while a net is trained, for package fit's Stream: so many files at
// a time, in an order that the seed decides, another one in each epoch. The set has no
// examples; Classes, Files and the sizes are there.
func (o Images) Stream(dir string, files int, seed int64) (iter.Seq2[Examples, error], *ImageSet, error) {
	f, s, err := o.open(dir)
	if err == nil && files < 1 {
		err = noFiles("Images", files)
	}
	if err != nil {
		return nil, nil, err
	}
	return f.stream(files, seed, s.read), s, nil
}

func (o Images) open(dir string) (folder, *ImageSet, error) {
	const most = 1 << 16
	if o.Height < 0 || o.Width < 0 || (o.Height == 0) != (o.Width == 0) || o.Height > most || o.Width > most {
		return folder{}, nil, fmt.Errorf("data: Images of %d×%d: want Height and Width, %d at most, or neither for the size of the first image", o.Height, o.Width, most)
	}
	f, err := readFolder(dir, imageFiles, o.Classes)
	if err != nil {
		return f, nil, err
	}
	s := &ImageSet{Height: o.Height, Width: o.Width, Channels: 3, Classes: f.classes, Files: f.files, labels: f.labels}
	if o.Gray {
		s.Channels = 1
	}
	if s.Height == 0 {
		img, err := decode(f.files[0])
		if err != nil {
			return f, nil, fmt.Errorf("data: %w", err)
		}
		s.Height, s.Width = img.Bounds().Dy(), img.Bounds().Dx()
	}
	return f, s, nil
}

// read reads the files of a folder.
func (s *ImageSet) read(f folder) (Examples, error) {
	size := s.Height * s.Width * s.Channels
	if len(f.files) > 1<<40/size {
		return Examples{}, fmt.Errorf("data: %d images of %d×%d: want smaller ones, or Images.Stream", len(f.files), s.Height, s.Width)
	}
	pixels := make([]byte, len(f.files)*size)
	err := f.all(func(i int) error {
		img, err := decode(f.files[i])
		if err == nil {
			resize(pixels[i*size:(i+1)*size], img, s.Height, s.Width, s.Channels)
		}
		return err
	})
	return Examples{N: len(f.files), X: Array{[]int{len(f.files), s.Height, s.Width, s.Channels}, pixels}, Y: f.labels, Encoder: &Encoder{Classes: f.classes}}, err
}

// decode reads an image, as it is to be seen.
func decode(path string) (image.Image, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	img, err := decodeImage(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return img, nil
}

func decodeImage(b []byte) (image.Image, error) {
	config, _, err := image.DecodeConfig(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%w: got %s, want PNG, JPEG or GIF", err, kindOf(b))
	}
	// No format makes more than about 8,000 pixels of a byte. A file that says so is damaged, and
	// would take the memory for them first.
	if config.Width < 1 || config.Height < 1 || config.Width > (1<<20+10000*len(b))/config.Height {
		return nil, fmt.Errorf("an image of %d×%d in %d bytes: want a whole image", config.Height, config.Width, len(b))
	}
	img, _, err := image.Decode(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	return turned(img, orientation(b)), nil
}

// kindOf names what a file begins with.
func kindOf(b []byte) string {
	for sign, what := range map[string]string{"RIFF": "WebP or WAV", "BM": "BMP", "II*\x00": "TIFF", "MM\x00*": "TIFF", "%PDF": "PDF", "<svg": "SVG", "<?xm": "XML", "PK": "a zip archive"} {
		if bytes.HasPrefix(b, []byte(sign)) {
			return what
		}
	}
	if len(b) > 12 && string(b[4:8]) == "ftyp" {
		return "HEIC, AVIF or a video"
	}
	if len(b) == 0 {
		return "an empty file"
	}
	return fmt.Sprintf("a file that begins with %q", b[:min(len(b), 8)])
}

// HTML shows the number of images of each class, and some of them.
func (s *ImageSet) HTML() string {
	a, _ := s.X.(Array)
	pixels, _ := a.Flat.([]byte)
	return Thumbnails{Title: s.String(), Classes: s.Classes, Labels: s.labels, Pixels: pixels, Height: s.Height, Width: s.Width, Channels: s.Channels, Files: s.Files}.HTML()
}

// Thumbnails shows images by class.
type Thumbnails struct {
	Title   string
	Classes []string // by label
	Labels  []int32  // of the images

	// Pixels is shaped [n Height Width Channels], 0 to 255; it may end early.
	Pixels                  []byte
	Height, Width, Channels int

	Files []string // the images' names; nil means numbers
}

// HTML shows the number of images of each class, up to 20 of them, and the first eight images.
func (t Thumbnails) HTML() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<div><div><small>%s</small></div><table><tbody>", strings.ReplaceAll(html.EscapeString(t.Title), "\n", "<br>"))
	size := t.Height * t.Width * t.Channels
	for k, class := range t.Classes[:min(len(t.Classes), 20)] {
		count, shown := 0, ""
		for i, l := range t.Labels {
			if int(l) != k {
				continue
			}
			if count++; count <= 8 && size > 0 && (i+1)*size <= len(t.Pixels) && size <= 3<<16 {
				name := fmt.Sprint("image ", i)
				if i < len(t.Files) {
					name = filepath.Base(t.Files[i])
				}
				shown += t.thumbnail(t.Pixels[i*size:(i+1)*size], name)
			}
		}
		fmt.Fprintf(&b, `<tr><td style="text-align:left">%s</td><td>%d</td><td style="text-align:left">%s</td></tr>`, html.EscapeString(class), count, shown)
	}
	b.WriteString("</tbody></table>")
	if more := len(t.Classes) - 20; more > 0 {
		fmt.Fprintf(&b, "<div><small>and %d more classes</small></div>", more)
	}
	b.WriteString("</div>")
	return b.String()
}

// thumbnail is an image as HTML.
func (t Thumbnails) thumbnail(pixels []byte, name string) string {
	img := image.NewRGBA(image.Rect(0, 0, t.Width, t.Height))
	for i := range t.Height * t.Width {
		for c := range 3 {
			img.Pix[4*i+c] = pixels[i*t.Channels+c%t.Channels]
		}
		img.Pix[4*i+3] = 255
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		return ""
	}
	return fmt.Sprintf(`<img src="data:image/png;base64,%s" height="48" alt="%s" title="%[2]s"> `, base64.StdEncoding.EncodeToString(b.Bytes()), html.EscapeString(name))
}
