/**
 * Gradients of pooling and of depthwise convolutions. Windows are taken in the order of their
 * indices, and so are the elements of a window. So each sum has a fixed order, which is that of the
 * kernels in JavaScript.
 */
import { loadSome, storeSome } from './lanes';

/**
 * Computes the gradient of the maxima or means of windows. The gradient of a maximum belongs to the
 * first element that is greater than all before it; NaN is not greater. The gradient of a mean is
 * divided by the size of the window even if a part of it is outside, as TensorFlow.js does.
 *
 * @param dx result, [batch, depth, height, width, channels].
 * @param x input of the pooling. Means do not need it.
 * @param dy gradient of the pooling's result, [batch, outDepth, outHeight, outWidth, channels].
 */
export function poolGradient(
  ofMaximum: bool,
  dx: usize,
  x: usize,
  dy: usize,
  batch: i32,
  channels: i32,
  depth: i32,
  outDepth: i32,
  windowDepth: i32,
  strideDepth: i32,
  front: i32,
  height: i32,
  outHeight: i32,
  windowHeight: i32,
  strideHeight: i32,
  top: i32,
  width: i32,
  outWidth: i32,
  windowWidth: i32,
  strideWidth: i32,
  left: i32,
): void {
  const step = 4 * channels;
  const line = width * step;
  const bytes = depth * height * line;
  const share = f32x4.splat(1 / ((windowDepth * windowHeight * windowWidth) as f32));
  for (let sample = 0; sample < batch; sample++) {
    memory.fill(dx, 0, bytes);
    for (let i = 0; i < outDepth; i++) {
      const z = i * strideDepth - front;
      const planes = min(depth, z + windowDepth);
      for (let j = 0; j < outHeight; j++) {
        const y = j * strideHeight - top;
        const lines = min(height, y + windowHeight);
        for (let k = 0; k < outWidth; k++) {
          const column = k * strideWidth - left;
          const start = max(0, column) * step;
          const end = min(width, column + windowWidth) * step;
          for (let c = 0; c < channels; c += 4) {
            const some = channels - c;
            const given = loadSome(dy + 4 * c, some);
            const gradient = ofMaximum ? given : f32x4.mul(given, share);
            let best = f32x4.splat(-Infinity);
            let place = i32x4.splat(-1);
            for (let p = max(0, z); p < planes; p++) {
              for (let l = max(0, y); l < lines; l++) {
                const from = (p * height + l) * line + 4 * c;
                for (let at = from + start; at < from + end; at += step) {
                  if (ofMaximum) {
                    const value = loadSome(x + at, some, -Infinity);
                    const isGreater = f32x4.gt(value, best);
                    best = v128.bitselect(value, best, isGreater);
                    place = v128.bitselect(i32x4.splat(at), place, isGreater);
                  } else storeSome(dx + at, f32x4.add(loadSome(dx + at, some), gradient), some);
                }
              }
            }
            if (ofMaximum) {
              addAt(dx, i32x4.extract_lane(place, 0), f32x4.extract_lane(gradient, 0));
              addAt(dx + 4, i32x4.extract_lane(place, 1), f32x4.extract_lane(gradient, 1));
              addAt(dx + 8, i32x4.extract_lane(place, 2), f32x4.extract_lane(gradient, 2));
              addAt(dx + 12, i32x4.extract_lane(place, 3), f32x4.extract_lane(gradient, 3));
            }
          }
          dy += step;
        }
      }
    }
    x += bytes;
    dx += bytes;
  }
}

/** Adds to the element at the byte `place`, unless this is negative. */
function addAt(dx: usize, place: i32, value: f32): void {
  if (place >= 0) store<f32>(dx + place, load<f32>(dx + place) + value);
}

/** Returns the first index whose position, `index * stride + offset`, is at least 0. */
function firstInside(stride: i32, offset: i32): i32 {
  return offset >= 0 ? 0 : (stride - 1 - offset) / stride;
}

/** Returns the index after the last one, of `count`, whose position is below `size`. */
function endInside(stride: i32, offset: i32, size: i32, count: i32): i32 {
  return offset >= size ? 0 : min(count, (size - 1 - offset) / stride + 1);
}

/**
 * Computes the gradient of `filter` [windowHeight, windowWidth, channels, multiplier] from `x`
 * [batch, height, width, channels]. Sums are in float64, because they have a term for each sample
 * and position.
 *
 * @param dy gradient of the result, [batch, outHeight, outWidth, channels * multiplier].
 * @param sums memory of 8 bytes for each element of the filter.
 */
export function depthwiseFilterGradient(
  filter: usize,
  x: usize,
  dy: usize,
  sums: usize,
  batch: i32,
  channels: i32,
  multiplier: i32,
  height: i32,
  outHeight: i32,
  windowHeight: i32,
  strideHeight: i32,
  dilationHeight: i32,
  top: i32,
  width: i32,
  outWidth: i32,
  windowWidth: i32,
  strideWidth: i32,
  dilationWidth: i32,
  left: i32,
): void {
  const outChannels = channels * multiplier;
  const elements = windowHeight * windowWidth * outChannels;
  // With several results for a channel, vectors are of these results.
  const groups = multiplier == 1 ? 1 : channels;
  const length = multiplier == 1 ? channels : multiplier;
  memory.fill(sums, 0, 8 * elements);
  for (let sample = 0; sample < batch; sample++) {
    for (let i = 0; i < outHeight; i++) {
      for (let tap = 0; tap < windowHeight * windowWidth; tap++) {
        const y = i * strideHeight + (tap / windowWidth) * dilationHeight - top;
        if (y < 0 || y >= height) continue;
        const offset = (tap % windowWidth) * dilationWidth - left;
        const start = firstInside(strideWidth, offset);
        const end = endInside(strideWidth, offset, width, outWidth);
        const line = x + 4 * channels * (y * width + start * strideWidth + offset);
        for (let group = 0; group < groups; group++) {
          for (let c = 0; c < length; c += 4) {
            const some = length - c;
            const out = group * length + c;
            const sum = sums + 8 * (tap * outChannels + out);
            let low = loadDoubles(sum, some);
            let high = loadDoubles(sum + 16, some - 2);
            let from = line + 4 * (multiplier == 1 ? c : group);
            let to = dy + 4 * (start * outChannels + out);
            for (let k = start; k < end; k++) {
              const value = multiplier == 1 ? loadSome(from, some) : f32x4.splat(load<f32>(from));
              const gradient = loadSome(to, some);
              low = f64x2.add(low, f64x2.mul(doubles(value), doubles(gradient)));
              high = f64x2.add(high, f64x2.mul(upperDoubles(value), upperDoubles(gradient)));
              from += 4 * channels * strideWidth;
              to += 4 * outChannels;
            }
            storeDoubles(sum, low, some);
            storeDoubles(sum + 16, high, some - 2);
          }
        }
      }
      dy += 4 * outWidth * outChannels;
    }
    x += 4 * height * width * channels;
  }
  for (let i = 0; i < elements; i++) store<f32>(filter + 4 * i, load<f64>(sums + 8 * i) as f32);
}

/**
 * Computes the gradient of the input, `dx` [batch, height, width, channels]. The other arguments
 * are those of {@link depthwiseFilterGradient}. Products and sums are rounded together.
 */
export function depthwiseInputGradient(
  dx: usize,
  filter: usize,
  dy: usize,
  batch: i32,
  channels: i32,
  multiplier: i32,
  height: i32,
  outHeight: i32,
  windowHeight: i32,
  strideHeight: i32,
  dilationHeight: i32,
  top: i32,
  width: i32,
  outWidth: i32,
  windowWidth: i32,
  strideWidth: i32,
  dilationWidth: i32,
  left: i32,
): void {
  const outChannels = channels * multiplier;
  const bytes = 4 * height * width * channels;
  for (let sample = 0; sample < batch; sample++) {
    memory.fill(dx, 0, bytes);
    for (let i = 0; i < outHeight; i++) {
      for (let row = 0; row < windowHeight; row++) {
        const y = i * strideHeight + row * dilationHeight - top;
        if (y < 0 || y >= height) continue;
        // An element of the input is in earlier windows with its later taps.
        for (let tap = windowWidth - 1; tap >= 0; tap--) {
          const offset = tap * dilationWidth - left;
          const start = firstInside(strideWidth, offset);
          const end = endInside(strideWidth, offset, width, outWidth);
          const line = dx + 4 * channels * (y * width + start * strideWidth + offset);
          const weights = filter + 4 * outChannels * (row * windowWidth + tap);
          if (multiplier == 1) {
            for (let c = 0; c < channels; c += 4) {
              const some = channels - c;
              const weight = loadSome(weights + 4 * c, some);
              const low = doubles(weight);
              const high = upperDoubles(weight);
              let to = line + 4 * c;
              let from = dy + 4 * (start * channels + c);
              for (let k = start; k < end; k++) {
                const gradient = loadSome(from, some);
                const before = loadSome(to, some);
                const sum = f64x2.add(doubles(before), f64x2.mul(doubles(gradient), low));
                const upper = f64x2.add(upperDoubles(before), f64x2.mul(upperDoubles(gradient), high));
                storeSome(to, floats(sum, upper), some);
                to += 4 * channels * strideWidth;
                from += 4 * channels;
              }
            }
          } else {
            for (let k = start; k < end; k++) {
              for (let c = 0; c < channels; c++) {
                const to = line + 4 * channels * strideWidth * (k - start) + 4 * c;
                let sum = load<f32>(to);
                for (let m = c * multiplier; m < (c + 1) * multiplier; m++) {
                  const gradient = load<f32>(dy + 4 * (k * outChannels + m)) as f64;
                  sum = ((sum as f64) + gradient * (load<f32>(weights + 4 * m) as f64)) as f32;
                }
                store<f32>(to, sum);
              }
            }
          }
        }
      }
      dy += 4 * outWidth * outChannels;
    }
    dx += bytes;
  }
}

function doubles(value: v128): v128 {
  return f64x2.promote_low_f32x4(value);
}

function upperDoubles(value: v128): v128 {
  return f64x2.promote_low_f32x4(v128.shuffle<i64>(value, value, 1, 0));
}

function floats(low: v128, high: v128): v128 {
  return v128.shuffle<i64>(f32x4.demote_f64x2_zero(low), f32x4.demote_f64x2_zero(high), 0, 2);
}

/** Loads two float64 numbers, of which `count` exist. */
function loadDoubles(at: usize, count: i32): v128 {
  if (count >= 2) return v128.load(at);
  return f64x2.replace_lane(f64x2.splat(0), 0, count > 0 ? load<f64>(at) : 0);
}

function storeDoubles(at: usize, value: v128, count: i32): void {
  if (count >= 2) v128.store(at, value);
  else if (count > 0) store<f64>(at, f64x2.extract_lane(value, 0));
}
