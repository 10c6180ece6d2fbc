// Converts pictures and numbers to the bytes of a tensor. Does not touch the page.

export const kTypes = {
  FP32: Float32Array, FP64: Float64Array, UINT8: Uint8Array, INT8: Int8Array, UINT16: Uint16Array, INT16: Int16Array,
  UINT32: Uint32Array, INT32: Int32Array,
};

export const elements = (shape) => shape.reduce((a, b) => a * b, 1);

/** Returns {channels, height, width} if the input is a picture, otherwise null. */
export function picture(input, layout) {
  if (!(input.datatype in kTypes) || (layout !== 'NCHW' && layout !== 'NHWC')) return null;
  const [batch, a, b, c] = input.shape.length === 4 ? input.shape : [1, ...input.shape];
  if (batch !== 1 || c === undefined) return null;
  const [channels, height, width] = layout === 'NCHW' ? [a, b, c] : [c, a, b];
  return channels === 1 || channels === 3 ? {channels, height, width} : null;
}

/** Converts samples 0..255, in the order [height][width][channels], to the input: x = (sample - mean[c]) * scale[c]. */
export function preprocess(samples, {channels, height, width}, input, {layout, scale, mean}) {
  const of = (values, channel, none) => values.length === 0 ? none : values[values.length === 1 ? 0 : channel];
  const out = new kTypes[input.datatype](elements(input.shape));
  for (let y = 0; y < height; ++y)
    for (let x = 0; x < width; ++x)
      for (let c = 0; c < channels; ++c) {
        const value = (samples[(y * width + x) * channels + c] - of(mean, c, 0)) * of(scale, c, 1);
        const at = layout === 'NCHW' ? (c * height + y) * width + x : (y * width + x) * channels + c;
        out[at] = input.datatype.startsWith('FP') ? value : Math.round(value);
      }
  return out;
}

/** Converts the RGBA pixels of a canvas to samples. For one channel, the sample is the grey value of ITU-R BT.601. */
export function samplesOf(rgba, channels) {
  const pixels = rgba.length / 4;
  const out = new Float64Array(pixels * channels);
  for (let i = 0; i < pixels; ++i) {
    const [r, g, b] = [rgba[4 * i], rgba[4 * i + 1], rgba[4 * i + 2]];
    if (channels === 1) out[i] = 0.299 * r + 0.587 * g + 0.114 * b;
    else out.set([r, g, b], 3 * i);
  }
  return out;
}

/**
 * Returns the centre of mass of a drawing and the larger side of its bounding box, in pixels, so that the drawing can
 * be centred like the digits of MNIST. Returns null for an empty drawing.
 */
export function ink(samples, width, height) {
  let mass = 0, cx = 0, cy = 0, left = width, right = -1, top = height, bottom = -1;
  for (let y = 0; y < height; ++y)
    for (let x = 0; x < width; ++x) {
      const value = samples[y * width + x];
      if (value < 16) continue;
      mass += value;
      cx += value * (x + 0.5);
      cy += value * (y + 0.5);
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
    }
  return mass === 0 ? null : {x: cx / mass, y: cy / mass, size: Math.max(right - left, bottom - top) + 1};
}

/** Parses numbers that a person typed, separated by commas, blanks or line ends. Throws if a word is not a number. */
export function numbers(text, input) {
  const words = text.split(/[\s,;[\]]+/).filter((word) => word !== '');
  const wanted = elements(input.shape);
  if (words.length !== wanted) throw new Error(`${words.length} numbers; ${input.name} takes ${wanted}`);
  return new kTypes[input.datatype](words.map((word) => {
    const value = Number(word);
    if (!Number.isFinite(value)) throw new Error(`'${word}' is no number`);
    return value;
  }));
}
