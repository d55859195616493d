/** A pair of MNIST's files with generated digits. */
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { loadData, parseJob } from '../../src/index.ts';
import { idxFile } from '../formats/idxFiles.ts';

/** Number of images. Jobs hold out a fifth of them. */
const IMAGES = 320;

/** Writes the files to a folder. */
export async function writeDigits(folder: string): Promise<void> {
  const { train } = await loadData(parseJob({ job: 'digits', seed: 1 }), { baseUrl: '' });
  const indices = Array.from({ length: IMAGES }, (_, i) => i);
  const [pixels, labels] = [new Float32Array(IMAGES * 28 * 28), new Int32Array(IMAGES)];
  await train.read(indices, pixels, labels);
  const bytes = Uint8Array.from(pixels, (pixel) => Math.round(pixel * 255));
  await writeFile(path.join(folder, 'train-images-idx3-ubyte'), idxFile([IMAGES, 28, 28], bytes));
  await writeFile(path.join(folder, 'train-labels-idx1-ubyte'), idxFile([IMAGES], Uint8Array.from(labels)));
}
