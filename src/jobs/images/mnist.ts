/**
 * The data of the job `mnist`: IDX files in a folder on a web server, or picked by the user.
 * Nothing is downloaded except from the address in the job.
 */
import { ImageDataset, type Dataset } from '../dataset.ts';
import { openIdx } from '../formats/idx.ts';
import type { FileSource, FoundFile } from '../fileSource.ts';
import { DataError } from '../../util/errors.ts';

const SIDE = 28;
const CLASSES = 10;
/**
 * With one pair of files, the first part is for training and the rest for testing. An integer
 * percentage makes the cut exact.
 */
const TRAIN_PERCENT = 80;

/** The names of MNIST's splits. */
type Split = 'train' | 't10k';
type Part = 'images' | 'labels';
const DIMENSIONS = { images: 3, labels: 1 } as const;

/** Possible names of a file: as distributed, and as some archives unpack it; gzipped or not. */
function namesOf(split: Split, part: Part): string[] {
  const plain = [`${split}-${part}-idx${DIMENSIONS[part]}-ubyte`, `${split}-${part}.idx${DIMENSIONS[part]}-ubyte`];
  return plain.flatMap((name) => [`${name}.gz`, name]);
}

/**
 * Loads the `train-*` pair for training and the `t10k-*` pair for testing. If there is only one
 * pair, its first 80 % are for training and its last 20 % for testing: MNIST's 10 000 test images
 * give 8 000 and 2 000.
 *
 * @throws DataError with the file, what was expected and what to do.
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
  if (cut === 0)
    throw new DataError(`${only.size} images ${source.where} are too few for training and testing. Choose more.`);
  return { train: only.slice(0, cut), test: only.slice(cut, only.size) };
}

/** Images and labels of a split; `null` if neither file exists. */
async function loadPair(source: FileSource, split: Split): Promise<ImageDataset | null> {
  const images = await source.find(namesOf(split, 'images'));
  const labels = await source.find(namesOf(split, 'labels'));
  if (images === null && labels === null) return null;
  if (images === null || labels === null) {
    const part = images === null ? 'images' : 'labels';
    throw new DataError(
      `${(images ?? labels)!.name} was found, but its ${part} were not: looked ${source.where} for ` +
        `${namesOf(split, part).join(', ')}. Add one of these.`,
    );
  }
  const pixels = await readBytes(images, 'images');
  const [count, height, width] = pixels.shape;
  if (height !== SIDE || width !== SIDE) {
    throw new DataError(
      `${images.name} holds images of ${height} x ${width} pixels; this job needs ${SIDE} x ${SIDE}. Choose MNIST or a ` +
        'data set of the same format.',
    );
  }
  const marks = await readBytes(labels, 'labels');
  if (marks.shape[0] !== count) {
    throw new DataError(
      `${images.name} has ${count} images, but ${labels.name} has ${marks.shape[0]} labels: they do not belong ` +
        'together. Take both from the same data set.',
    );
  }
  if (count === 0) throw new DataError(`${images.name} has no images. Choose other files.`);
  const wrong = marks.values.findIndex((label) => label >= CLASSES);
  if (wrong !== -1) {
    throw new DataError(
      `${labels.name} has label ${marks.values[wrong]} at position ${wrong}; labels are 0 .. ${CLASSES - 1}. Choose ` +
        'MNIST or a data set of the same format.',
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
      `${name} is not an IDX file of ${part}: it holds ${shape.join(' x ')} of ${type}, but ${part} are bytes in ` +
        `${DIMENSIONS[part]} dimension(s). Check that images and labels were not swapped.`,
    );
  }
  return { shape, values: await array.readBytes() };
}

function listed(names: readonly string[] | null): string {
  if (names === null) return 'none that can be read';
  if (names.length === 0) return 'no files';
  const shown = names.slice(0, 8).join(', ');
  return names.length > 8 ? `${shown} and ${names.length - 8} more` : shown;
}
