/**
 * The data of the job `mnist`: IDX files that are in a folder on a web server or were picked by the
 * user. Files are downloaded only from the address in the job.
 */
import { ImageDataset, type Dataset } from '../dataset.ts';
import { openIdx } from '../../formats/idx.ts';
import type { DataFileSource, FoundFile } from '../fileSource.ts';
import {
  MNIST_DIMENSIONS,
  MNIST_PARTS,
  MNIST_SPLITS,
  possibleMnistFileNames,
  type MnistPart,
  type MnistSplit,
} from '../../spec/mnistFiles.ts';
import { DataError } from '../../util/errors.ts';

const SIDE = 28;
const CLASSES = 10;
/**
 * If there is only one pair of files, this percentage of its samples, from the start, is for
 * training, and the rest is held out. It is an integer, so that the boundary is exact.
 */
const TRAIN_PERCENT = 80;

/**
 * Loads the `train-*` pair for training and the `t10k-*` pair for evaluation. If there is only one
 * pair, its first 80 % are for training and its last 20 % for evaluation. For example, the 10 000
 * images of `t10k-*` are split into 8 000 and 2 000.
 *
 * @throws (rejects) DataError if there is no pair, or a pair is incomplete or invalid. The error
 *   names the file and says what was expected and what to do.
 */
export async function loadMnist(source: DataFileSource): Promise<{ train: Dataset; test: Dataset }> {
  const [train, test] = [await loadPair(source, 'train'), await loadPair(source, 't10k')];
  if (train !== null && test !== null) return { train, test };
  const only = train ?? test;
  if (only === null) {
    const wanted = MNIST_SPLITS.map((split) => {
      return MNIST_PARTS.map((part) => possibleMnistFileNames(split, part)[0]!).join(' and ');
    });
    throw new DataError(
      `There are no MNIST files ${source.where}. Provide at least one pair: ${wanted.join(', or ')} (with or without .gz). Found: ` +
        `${listed(source.names)}.`,
    );
  }
  const cut = Math.floor((only.size * TRAIN_PERCENT) / 100);
  if (cut === 0)
    throw new DataError(
      `${only.size} images ${source.where} are too few for training and evaluation. Choose more images.`,
    );
  return { train: only.slice(0, cut), test: only.slice(cut, only.size) };
}

/** Loads the images and labels of a split. Returns `null` if neither file exists. */
async function loadPair(source: DataFileSource, split: MnistSplit): Promise<ImageDataset | null> {
  const images = await source.find(possibleMnistFileNames(split, 'images'));
  const labels = await source.find(possibleMnistFileNames(split, 'labels'));
  if (images === null && labels === null) return null;
  if (images === null || labels === null) {
    const part = images === null ? 'images' : 'labels';
    throw new DataError(
      `${(images ?? labels)!.name} was found, but its ${part} were not found ${source.where}. Add one of these files: ` +
        `${possibleMnistFileNames(split, part).join(', ')}.`,
    );
  }
  const pixels = await readBytes(images, 'images');
  const [count, height, width] = pixels.shape;
  if (height !== SIDE || width !== SIDE) {
    throw new DataError(
      `${images.name} has images of ${height} x ${width} pixels, but this job needs ${SIDE} x ${SIDE}. Choose MNIST or a ` +
        'data set of the same format.',
    );
  }
  const marks = await readBytes(labels, 'labels');
  if (marks.shape[0] !== count) {
    throw new DataError(
      `${images.name} has ${count} images, but ${labels.name} has ${marks.shape[0]} labels. They do not belong ` +
        'together. Choose both files from the same data set.',
    );
  }
  if (count === 0) throw new DataError(`${images.name} has no images. Choose other files.`);
  const wrong = marks.values.findIndex((label) => label >= CLASSES);
  if (wrong !== -1) {
    throw new DataError(
      `${labels.name} has label ${marks.values[wrong]} at position ${wrong}, but labels are 0 .. ${CLASSES - 1}. Choose ` +
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
  part: MnistPart,
): Promise<{ shape: readonly number[]; values: Uint8Array }> {
  const array = await openIdx(name, new Blob([bytes]));
  const { shape, type } = array;
  if (type !== 'u1' || shape.length !== MNIST_DIMENSIONS[part]) {
    throw new DataError(
      `${name} is not an IDX file of ${part}: it has shape ${shape.join(' x ')} and type ${type}, but ${part} are bytes in ` +
        `${MNIST_DIMENSIONS[part]} dimension(s). Check that images and labels were not swapped.`,
    );
  }
  return { shape, values: await array.readBytes() };
}

function listed(names: readonly string[] | null): string {
  if (names === null) return 'none of these names';
  if (names.length === 0) return 'no files';
  const shown = names.slice(0, 8).join(', ');
  return names.length > 8 ? `${shown} and ${names.length - 8} more` : shown;
}
