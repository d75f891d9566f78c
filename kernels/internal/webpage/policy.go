package webpage

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/microcosm-cc/bluemonday"
)

// The elements of a page, of HTML and, inside an svg, of SVG. Of others only
// the content stays.
const (
	htmlElements = `a abbr b bdi bdo big blockquote br caption center cite code col colgroup dd del details dfn div dl dt em figcaption
		figure font h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark meter ol p pre progress q rp rt ruby s samp section small span strike strong sub summary sup svg
		table tbody td tfoot th thead time tr tt u ul var wbr`
	svgElements = `svg g path rect circle ellipse line polyline polygon text tspan title desc defs use stop symbol marker mask pattern image
		clippath lineargradient radialgradient`
	// Of these, nothing stays.
	droppedElements = `script style iframe object applet template noscript noembed noframes frameset audio video canvas textarea select option
		button dialog xmp plaintext math foreignobject animate animatemotion animatetransform set`
)

const svgAttributes = `cx cy d dx dy x x1 x2 y y1 y2 fx fy r rx ry width height offset points transform viewbox preserveaspectratio pathlength rotate textlength
	gradientunits gradienttransform spreadmethod patternunits patterncontentunits patterntransform clippathunits maskunits maskcontentunits
	markerunits markerwidth markerheight refx refy orient text-anchor dominant-baseline alignment-baseline baseline-shift
	fill fill-opacity fill-rule stroke stroke-width stroke-opacity stroke-linecap stroke-linejoin stroke-miterlimit stroke-dasharray stroke-dashoffset
	stop-color stop-opacity color opacity clip-path clip-rule mask marker-start marker-mid marker-end shape-rendering text-rendering image-rendering
	font-family font-size font-style font-weight letter-spacing word-spacing text-decoration vector-effect paint-order visibility display role version`

// CSS that an output or a text cell may set: how its own box looks and is laid
// out, nothing that leaves its place, is drawn outside of it or is fetched.
const (
	plainStyles = `align-content align-items align-self background background-color border border-bottom border-bottom-color border-bottom-style border-bottom-width
		border-collapse border-color border-left border-left-color border-left-style border-left-width border-radius border-right border-right-color border-right-style
		border-right-width border-spacing border-style border-top border-top-color border-top-style border-top-width border-width box-sizing caption-side clear color
		column-gap direction display empty-cells flex flex-basis flex-direction flex-flow flex-grow flex-shrink flex-wrap float font font-family font-size font-stretch
		font-style font-variant font-variant-numeric font-weight gap grid-auto-flow grid-template-columns grid-template-rows height image-rendering justify-content
		justify-items justify-self letter-spacing line-height list-style list-style-position list-style-type margin margin-bottom margin-left margin-right margin-top
		max-height max-width min-height min-width overflow overflow-wrap overflow-x overflow-y padding padding-bottom padding-left padding-right padding-top
		row-gap tab-size table-layout text-align text-decoration text-decoration-color text-decoration-line text-decoration-style text-overflow text-transform
		unicode-bidi vertical-align white-space width word-break word-spacing word-wrap`
	svgStyles = `alignment-baseline baseline-shift clip-path clip-rule dominant-baseline fill fill-opacity fill-rule marker-end marker-mid marker-start mask paint-order
		shape-rendering stop-color stop-opacity stroke stroke-dasharray stroke-dashoffset stroke-linecap stroke-linejoin stroke-miterlimit stroke-opacity
		stroke-width text-anchor text-rendering vector-effect visibility`
)

var (
	// A value that names nothing outside of its element: own ids only, and no
	// function but those of colours and sizes.
	harmlessValue = regexp.MustCompile(`^(?i:[^\\@<>;{}()]|\b(?:rgba?|hsla?|hwb|lab|lch|oklab|oklch|calc|min|max|clamp|repeat|minmax|fit-content|linear-gradient|radial-gradient|matrix|translate|scale|rotate|skewx|skewy)\s*\(|\burl\(["']?#[^\s"'()]+["']?\)|\))*$`)
	negative      = regexp.MustCompile(`(^|[\s,(])-[\d.]|\bcalc|\bmin\(|\bmax\(|\bclamp`)
	seenOpacity   = regexp.MustCompile(`^(?:1(?:\.0*)?|0?\.[1-9]\d*|[1-9]\d%|100%)$`)

	fragment    = regexp.MustCompile(`^#\S+$`)
	linkAddress = regexp.MustCompile(`^(?i:https?://|mailto:)\S+$|^#\S+$|^[^\s\\:/?#]+(?:[/?#][^\s\\]*)?$`) // the last: of a file next to the page
	pictureData = regexp.MustCompile(`^data:image/(?:png|jpeg|gif|webp|svg\+xml)[;,]\S*$`)
	rasterData  = regexp.MustCompile(`^data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*$`)
	idValue     = regexp.MustCompile(`^[^\s\\"'<>]+$`)
	knownClass  = regexp.MustCompile(`^(?:(?:[kbsncm]|dataframe|ansi-[a-z-]+)(?: +|$))+$`)
	wordValue   = regexp.MustCompile(`^[\w #.,:+%-]*$`)
)

// policy decides what of HTML from a notebook stays: an allow-list of elements,
// attributes, properties and addresses.
var policy = newPolicy()

func newPolicy() *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	fields := strings.Fields
	all := append(fields(htmlElements), fields(svgElements)...)
	p.AllowNoAttrs().OnElements(all...)
	p.SkipElementsContent(fields(droppedElements)...)

	p.RequireParseableURLs(true)
	p.AllowRelativeURLs(true) // of which the patterns below let only #part pass, and files of links
	p.AllowURLSchemes("http", "https", "mailto")
	p.AllowURLSchemeWithCustomPolicy("data", func(u *url.URL) bool { return pictureData.MatchString(u.String()) })
	p.AllowAttrs("href").Matching(linkAddress).OnElements("a")
	p.AllowAttrs("src").Matching(pictureData).OnElements("img")
	p.AllowAttrs("href", "xlink:href").Matching(rasterData).OnElements("image")
	p.AllowAttrs("href", "xlink:href").Matching(fragment).OnElements("use", "lineargradient", "radialgradient", "pattern")

	p.AllowAttrs("id").Matching(idValue).Globally()
	p.AllowAttrs("name").Matching(idValue).OnElements("a")
	p.AllowAttrs("class").Matching(knownClass).Globally()
	p.AllowAttrs("title", "aria-label", "alt").Globally()
	p.AllowAttrs("lang", "dir", "role", "aria-hidden", "aria-labelledby", "aria-describedby").Matching(wordValue).Globally()
	p.AllowAttrs("width", "height", "align", "valign").Matching(wordValue).OnElements(fields(htmlElements)...)
	p.AllowAttrs("colspan", "rowspan", "scope", "span", "headers", "abbr", "bgcolor", "border", "cellpadding", "cellspacing").Matching(wordValue).
		OnElements("table", "thead", "tbody", "tfoot", "tr", "td", "th", "col", "colgroup")
	p.AllowAttrs("start", "type", "reversed", "value").Matching(wordValue).OnElements("ol", "ul", "li")
	p.AllowAttrs("value", "max", "min", "low", "high", "optimum").Matching(wordValue).OnElements("meter", "progress")
	p.AllowAttrs("color", "size", "face").Matching(wordValue).OnElements("font", "hr")
	p.AllowAttrs("open").OnElements("details")
	p.AllowAttrs("datetime").Matching(wordValue).OnElements("time", "del", "ins")
	p.AllowAttrs(fields(svgAttributes)...).Matching(harmlessValue).OnElements(fields(svgElements)...)

	p.AllowStyles(append(fields(plainStyles), fields(svgStyles)...)...).MatchingHandler(func(v string) bool {
		return harmlessValue.MatchString(v) && !negative.MatchString(v)
	}).Globally()
	p.AllowStyles("opacity").Matching(seenOpacity).Globally()
	return p
}
