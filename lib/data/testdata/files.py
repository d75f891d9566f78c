"""Writes photos.json and wav.json: images as Pillow reads them, and sounds as SciPy does.

Run with a Python that has Pillow and SciPy: python files.py
"""
import base64, io, json
import numpy as np
from PIL import Image, ImageOps
from scipy.io import wavfile

y, x = np.mgrid[:16, :24]
ramp = np.stack([x * 10, y * 15, 255 - x * 10], -1).astype(np.uint8)
photos = {}

def photo(name, image, **how):
    f = io.BytesIO()
    image.save(f, **how)
    seen = ImageOps.exif_transpose(Image.open(io.BytesIO(f.getvalue())))
    if seen.mode == "I;16":
        pixels = np.repeat((np.asarray(seen) >> 8).astype(np.uint8)[..., None], 3, -1)
    elif seen.mode == "RGBA":  # over black
        pixels = np.asarray(Image.alpha_composite(Image.new("RGBA", seen.size, (0, 0, 0, 255)), seen).convert("RGB"))
    else:
        pixels = np.asarray(seen.convert("RGB"))
    photos[name] = {"File": base64.b64encode(f.getvalue()).decode(), "Height": seen.height, "Width": seen.width, "Pixels": base64.b64encode(pixels.tobytes()).decode()}

rgb = Image.fromarray(ramp)
for turn in range(1, 9):
    exif = Image.Exif()
    exif[0x112] = turn
    photo(f"turned {turn}", rgb, format="JPEG", quality=100, subsampling=0, exif=exif)
photo("gray JPEG", rgb.convert("L"), format="JPEG", quality=100)
photo("CMYK JPEG", rgb.convert("CMYK"), format="JPEG", quality=100)
photo("progressive JPEG", rgb, format="JPEG", quality=100, subsampling=0, progressive=True)
photo("PNG", rgb, format="PNG")
exif = Image.Exif()
exif[0x112] = 6
photo("PNG turned 6", rgb, format="PNG", exif=exif)
photo("PNG of 16 bits", Image.fromarray((x * 2700).astype(np.uint16)), format="PNG")
photo("PNG with alpha", Image.fromarray(np.concatenate([ramp, (y * 17)[..., None].astype(np.uint8)], -1)), format="PNG")
photo("PNG with a palette", rgb.quantize(16), format="PNG")
photo("PNG of 1 bit", rgb.convert("1"), format="PNG")
photo("GIF", rgb.quantize(16), format="GIF")
json.dump(photos, open("photos.json", "w"), indent=1)

sounds = {}
wave = np.array([[0.0, 0.5], [-1.0, 0.25], [0.75, -0.5]])
for name, kind, scale in ("8", np.uint8, 128), ("16", np.int16, 2**15), ("32", np.int32, 2**31), ("f32", np.float32, 1), ("f64", np.float64, 1):
    f = io.BytesIO()
    values = wave * scale + (128 if kind == np.uint8 else 0)
    wavfile.write(f, 8000, np.clip(values, np.iinfo(kind).min, np.iinfo(kind).max).astype(kind) if np.issubdtype(kind, np.integer) else values.astype(kind))
    rate, read = wavfile.read(io.BytesIO(f.getvalue()))
    read = (read.astype(np.float64) - (128 if kind == np.uint8 else 0)) / scale
    sounds[name] = {"File": base64.b64encode(f.getvalue()).decode(), "Rate": rate, "Channels": 2, "Samples": read.ravel().tolist()}
import struct, wave as pcm
f = io.BytesIO()
with pcm.open(f, "wb") as w:
    w.setnchannels(1); w.setsampwidth(3); w.setframerate(44100)
    w.writeframes(b"\x00\x00\x40\xff\xff\xff\x00\x00\x80")
rate, read = wavfile.read(io.BytesIO(f.getvalue()))
sounds["24"] = {"File": base64.b64encode(f.getvalue()).decode(), "Rate": rate, "Channels": 1, "Samples": (read / 2**31).tolist()}
extensible = f.getvalue()
extensible = extensible[:12] + b"LIST" + struct.pack("<I", 3) + b"abc\0" + b"fmt " + struct.pack("<IHHIIHHHHI", 40, 0xfffe, 1, 44100, 132300, 3, 24, 22, 24, 4) + b"\x01\x00\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71" + extensible[36:]
sounds["24, extensible, with a list"] = dict(sounds["24"], File=base64.b64encode(extensible).decode())
json.dump(sounds, open("wav.json", "w"), indent=1)
