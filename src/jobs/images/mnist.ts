/**
 * The `mnist` job's data: IDX files in a folder on a web server, or picked by the user. Nothing is
 * downloaded from anywhere that the job does not name.
 */
import { ImageDataset, type Dataset } from '../dataset.ts';
import { openIdx } from '../formats/idx.ts';
import type { FileSource, FoundFile } from '../fileSource.ts';
import { DataError } from '../../util/errors.ts';

const SIDE = 28;
const CLASSES = 10;
/**
 * With one pair of files, the first part trains and the rest tests. In parts of a hundred, so that
 * the cut is exact.
 */
const TRAIN_PERCENT = 80;

/** MNIST's own split names. */
type Split = 'train' | 't10k';
type Part = 'images' | 'labels';
const DIMENSIONS = { images: 3, labels: 1 } as const;

/** The names a file may have: as distributed, and as some archives unpack it; gzipped or not. */
function namesOf(split: Split, part: Part): string[] {
  const plain = [`${split}-${part}-idx${DIMENSIONS[part]}-ubyte`, `${split}-${part}.idx${DIMENSIONS[part]}-ubyte`];
  return plain.flatMap((name) => [`${name}.gz`, name]);
}

/**
 * Loads the `train-*` pair for training and the `t10k-*` pair for testing. With one pair only, of
 * either name, its first 80 % train and its last 20 % test: MNIST's 10 000 test images give 8 000
 * and 2 000.
 *
 * @throws DataError naming the file, what was expected and what to do.
 */
export async function loadMnist(source: FileSource): Promise<{ train: Dataset; test: Dataset }> {
  const [train, test] = [await loadPair(source, 'train'), await loadPair(source, 't10k')];
  if (train !== null && test !== null) return { train, test };
  const only = train ?? test;
  if (only === null) {
    const wanted = (['train', 't10k'] as const).map((split) => {
      return (['images', 'labels'] as const).map((part) => namesOf(split, part)[0]!).join(' and ');
    });
    throw new DataError(
      `No MNIST files ${source.where}: looked for ${wanted.join(', or ')} (with or without .gz) and found ` +
        `${listed(source.names)}. Put at least one such pair there.`,
    );
  }
  const cut = Math.floor((only.size * TRAIN_PERCENT) / 100);
  if (cut === 0) throw new DataError(`${only.size} images ${source.where} are too few to train and to test on.`);
  return { train: only.slice(0, cut), test: only.slice(cut, only.size) };
}

/** A split's images with their labels, or null if neither file is there. */
async function loadPair(source: FileSource, split: Split): Promise<ImageDataset | null> {
  const images = await source.find(namesOf(split, 'images'));
  const labels = await source.find(namesOf(split, 'labels'));
  if (images === null && labels === null) return null;
  if (images === null || labels === null) {
    const part = images === null ? 'images' : 'labels';
    throw new DataError(
      `${(images ?? labels)!.name} is there, but its ${part} are not: looked ${source.where} for ` +
        `${namesOf(split, part).join(', ')}. Add one of these.`,
    );
  }
  const pixels = await readBytes(images, 'images');
  const [count, height, width] = pixels.shape;
  if (height !== SIDE || width !== SIDE) {
    throw new DataError(
      `${images.name} holds images of ${height} x ${width} pixels; this job needs ${SIDE} x ${SIDE}. Choose MNIST or a ` +
        'set of the same form.',
    );
  }
  const marks = await readBytes(labels, 'labels');
  if (marks.shape[0] !== count) {
    throw new DataError(
      `${images.name} holds ${count} images, but ${labels.name} ${marks.shape[0]} labels: these two do not belong ` +
        'together. Take both from the same set.',
    );
  }
  if (count === 0) throw new DataError(`${images.name} holds no images. Choose other files.`);
  const wrong = marks.values.findIndex((label) => label >= CLASSES);
  if (wrong !== -1) {
    throw new DataError(
      `${labels.name} has label ${marks.values[wrong]} at position ${wrong}; labels are 0 .. ${CLASSES - 1}. Choose ` +
        'MNIST or a set of the same form.',
    );
  }
  return new ImageDataset({
    pixels: pixels.values,
    labels: marks.values,
    height,
    width,
    classes: CLASSES,
  });
}

async function readBytes(
  { name, bytes }: FoundFile,
  part: Part,
): Promise<{ shape: readonly number[]; values: Uint8Array }> {
  const array = await openIdx(name, new Blob([bytes]));
  const { shape, type } = array;
  if (type !== 'u1' || shape.length !== DIMENSIONS[part]) {
    throw new DataError(
      `${name} is not an IDX file of ${part}: it holds ${shape.join(' x ')} of ${type}, and ${part} are bytes in ` +
        `${DIMENSIONS[part]} dimension(s). Check that images and labels were not swapped.`,
    );
  }
  return { shape, values: await array.readBytes() };
}

function listed(names: readonly string[] | null): string {
  if (names === null) return 'none that may be read';
  if (names.length === 0) return 'no files';
  const shown = names.slice(0, 8).join(', ');
  return names.length > 8 ? `${shown} and ${names.length - 8} more` : shown;
}
