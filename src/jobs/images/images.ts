/**
 * The data of the job `images`: pictures in folders or in a zip file, images and labels as IDX
 * files, or arrays in an npz file.
 */
import type { JobSpec } from '../../spec/job.ts';
import type { DataNote, ImagesPreview } from '../../spec/preview.ts';
import { LEAST_OWN_SAMPLES, type ImagesFacts } from '../../spec/dataFacts.ts';
import { DataError, UsageError } from '../../util/errors.ts';
import {
  ArrayDataset,
  checkRowsAreFinite,
  readLabels,
  sampleShape,
  momentsOfLabelledRows,
  type LabelledRows,
} from './arrayDataset.ts';
import { augmentedPreview, augmentNotes, checkAugmentFitsArray } from './augment.ts';
import type { Dataset } from '../dataset.ts';
import { fileNotesByFolder } from '../fileNotes.ts';
import type { StoredArray } from '../../formats/storedArray.ts';
import { openIdx } from '../../formats/idx.ts';
import { openNpz } from '../../formats/npz.ts';
import type { LoadDataOptions } from '../fileSource.ts';
import { isHiddenFile, fileKindOfName } from '../../spec/dataFiles.ts';
import { byteSourceAt, type DataFile } from '../dataFile.ts';
import { findPictures } from './findPictures.ts';
import { decodePicture, type DecodePicture } from '../../formats/decodePicture.ts';
import { openZip } from '../../formats/zip.ts';
import { checkZipEntry } from '../../formats/zipEntry.ts';
import { checkImageClasses, sortClassNames } from './imagesAgreement.ts';
import { findClassFolders, pictureCountsByClass, type ClassFolders } from './pictureFolders.ts';
import { PictureDataset } from './pictureDataset.ts';
import { PictureFiles } from './pictures.ts';
import { readPicturesInWorkers } from './readPicturesInWorkers.ts';
import { readPicturesWith } from './readPictures.ts';
import { checkClassesCanSplit, notesOnUntestedClasses, trainTestSplit } from '../trainTestSplit.ts';

/** Number of pictures in a preview. */
const SHOWN = 12;
/** Matches the names of files with held-out samples or their labels. */
const HELD_OUT = /t10k|test|val/i;
/** Names of sample and label arrays, as used by Keras, MedMNIST and other common data sets. */
const TRAIN_NAMES = [
  ['x_train', 'y_train'],
  ['train_images', 'train_labels'],
  ['x', 'y'],
  ['images', 'labels'],
] as const;
const TEST_NAMES = [
  ['x_test', 'y_test'],
  ['test_images', 'test_labels'],
] as const;

export type ImagesJob = Pick<JobSpec, 'model' | 'seed' | 'side' | 'channels' | 'augment'>;

export interface OpenedImages {
  preview: ImagesPreview;
  facts: ImagesFacts;
  /**
   * Creates the datasets.
   *
   * @param facts the merged facts of the images in all tabs. If missing, the facts of these files
   *   are used.
   */
  load(facts?: ImagesFacts): ImagesParts;
}

interface ImagesParts {
  train: Dataset;
  test: Dataset;
  /** All pictures, sorted by class and name; `null` for arrays. */
  readonly all: Dataset | null;
}

/** Options of {@link openImages}. Tests without a browser pass their own `decode`. */
interface OpenOptions {
  /**
   * Whether the files are the shard of one tab. If so, requirements that apply to all tabs
   * together, such as two classes, are not checked.
   */
  isShard?: boolean;
  decode?: DecodePicture;
  /** Called once for each picture that cannot be decoded, with the reason. */
  onundecoded?: LoadDataOptions['onundecoded'];
}

/**
 * Opens the images of a job.
 *
 * @param given the files, or an archive of them.
 * @throws (rejects) DataError if the files cannot be used. The error names the file and says what
 *   to do.
 */
export async function openImages(
  given: readonly DataFile[],
  job: ImagesJob,
  { isShard = false, ...options }: OpenOptions = {},
): Promise<OpenedImages> {
  const files = given.filter(({ path }) => !isHiddenFile(path));
  // If there are both pictures and an archive, the archive is ignored, because the pictures were
  // usually unpacked from it.
  const isUnpacked = files.some(({ path }) => ['idx', 'picture'].includes(fileKindOfName(path) ?? ''));
  const archives = isUnpacked ? [] : files.filter(({ path }) => /\.(npz|zip)$/i.test(path));
  const [archive] = archives;
  if (archives.length > 1 || (archive !== undefined && files.length > 1)) {
    throw new DataError(
      `These files cannot be used together: ${files
        .map(({ path }) => path)
        .slice(0, 4)
        .join(', ')}. Choose a single npz or zip file and no other files.`,
    );
  }
  if (archive !== undefined && /\.npz$/i.test(archive.path)) {
    return ofArrays(await npzPairs(archive.path, await archive.blob()), job, isShard);
  }
  const stored = archive === undefined ? given : await entriesOf(archive);
  const idx = stored.filter(({ path }) => fileKindOfName(path) === 'idx' && !isHiddenFile(path));
  if (idx.length > 0) {
    const pairs = await idxPairs(await Promise.all(idx.map(async ({ path, blob }) => new File([await blob()], path))));
    const ignored = stored.filter((one) => !idx.includes(one) && !isHiddenFile(one.path));
    return ofArrays(
      pairs,
      job,
      isShard,
      fileNotesByFolder(
        'files-ignored',
        ignored.map(({ path }) => path),
      ),
    );
  }
  const name = archive?.path ?? (given.length === 0 ? 'The choice' : 'The folder');
  return ofPictures(name, stored, job, { isShard, ...options });
}

async function entriesOf({ path: name, place }: DataFile): Promise<DataFile[]> {
  if (place.in === 'zip') throw new UsageError(`${name} is a zip file inside another zip file.`);
  const entries = await openZip(name, byteSourceAt(place));
  return entries.map(({ facts, ...entry }) => ({
    ...entry,
    version: facts.crc,
    place: { in: 'zip', zip: place, entry: facts },
  }));
}

interface Pair {
  x: StoredArray;
  y: StoredArray;
}

/**
 * The pairs of sample and label arrays. `test` has the held-out samples. It is `null` if the files
 * contain a single pair.
 */
type Pairs = readonly [train: Pair, test: Pair | null];

async function npzPairs(name: string, blob: Blob): Promise<Pairs> {
  const npz = await openNpz(name, blob);
  const byName = new Map(npz.names.map((array) => [array.toLowerCase(), array]));
  const pairOf = async (candidates: readonly (readonly [string, string])[]): Promise<Pair | null> => {
    for (const [x, y] of candidates) {
      const names = [byName.get(x), byName.get(y)];
      if (names[0] === undefined || names[1] === undefined) continue;
      return { x: await npz.open(names[0]), y: await npz.open(names[1]) };
    }
    return null;
  };
  const train = await pairOf(TRAIN_NAMES);
  if (train !== null) return [train, await pairOf(TEST_NAMES)];
  throw new DataError(
    `${name} has these arrays: ${npz.names.length === 0 ? '(none)' : npz.names.slice(0, 8).join(', ')}. Needed are x and y, or x_train, ` +
      'y_train, x_test and y_test. Save the arrays with these names.',
  );
}

async function idxPairs(files: readonly File[]): Promise<Pairs> {
  const opened = await Promise.all(files.map((file) => openIdx(file.name, file)));
  const pairOf = (isHeldOut: boolean): Pair | null => {
    const own = opened.filter(({ name }) => files.length <= 2 || HELD_OUT.test(name) === isHeldOut);
    const [x, ...otherX] = own.filter(({ shape }) => shape.length > 1);
    const [y, ...otherY] = own.filter(({ shape }) => shape.length === 1);
    if (own.length === 0) return null;
    if (x !== undefined && y !== undefined && otherX.length + otherY.length === 0) return { x, y };
    const wide = own.find(({ name, shape }) => shape.length === 2 && /label/i.test(name));
    if (wide !== undefined) {
      throw new DataError(
        `${wide.name} has ${wide.shape[1]} numbers for each sample, but a label is one number. Save one column of it as IDX with one dimension.`,
      );
    }
    throw new DataError(
      `These IDX files are not pairs: ${own.map(({ name, shape }) => `${name} (${shape.join(' x ')})`).join(', ')}. Choose one file of ` +
        'images and one of labels, or two such pairs. The names of the held-out pair must contain "t10k" or "test".',
    );
  };
  if (files.length <= 2) return [pairOf(false)!, null];
  const [train, test] = [pairOf(false), pairOf(true)];
  return train === null ? [test!, null] : [train, test];
}

async function ofArrays(
  [given, held]: Pairs,
  { model, seed, augment }: ImagesJob,
  isShard: boolean,
  ignored: readonly DataNote[] = [],
): Promise<OpenedImages> {
  const shape = sampleShape(given.x);
  if (model === 'cnn' && given.x.shape.length === 2) {
    throw new DataError(
      `${given.x.name} has rows of ${shape[2]} numbers, but the model cnn needs images. Choose mlp, or reshape the array.`,
    );
  }
  checkAugmentFitsArray(augment, given.x);
  if (held !== null && held.x.shape.slice(1).join() !== given.x.shape.slice(1).join()) {
    throw new DataError(
      `${held.x.name} has shape (${held.x.shape.join(', ')}), but ${given.x.name} has shape (${given.x.shape.join(', ')}). Save both arrays with the same sample shape.`,
    );
  }
  if (held !== null && scaleOf(held.x) !== scaleOf(given.x)) {
    throw new DataError(
      `${held.x.name} has type ${held.x.type}, but ${given.x.name} has ${given.x.type}. Save both with the same type, because their scales may ` +
        'differ.',
    );
  }
  const all = await arraysOf(given);
  checkEnough(given.x.name, all.rows.length, isShard);
  const split = trainTestSplit(all.y, seed);
  const train = held === null ? { ...all, rows: split.train } : all;
  const test = held === null ? { ...all, rows: split.test } : await arraysOf(held);
  if (test.rows.length === 0)
    throw new DataError(`${test.x.name} has no samples for evaluation. Add samples, or remove the file or array.`);
  const counts = countsOfLabels([train, test]);
  checkImageClasses(
    given.x.name,
    { isNumbered: true, classes: sortClassNames(Array.from(all.y, String), true) },
    isShard,
  );
  if (!isShard) checkHeldOut(all, test);
  if (!isShard && held === null) checkClassesCanSplit(given.x.name, [...counts.values()]);
  const classes = sortClassNames([...counts.keys()].map(String), true);
  const known = new Set(all.y);
  const tested = new Set(Array.from(test.rows, (row) => test.y[row]!));
  const untrained = classes.filter((label) => !known.has(Number(label)));
  await checkRowsAreFinite(test);
  const facts: ImagesFacts = {
    kind: 'images',
    shape,
    isNumbered: true,
    classes,
    untrained,
    moments: await momentsOfLabelledRows(train),
  };
  const trained = new ArrayDataset(train, facts);
  const isPicture = given.x.shape.length > 2 && shape[2] !== 2;
  const shown = isPicture
    ? firsts(
        Array.from(train.rows, (row) => classes.indexOf(String(train.y[row]!))),
        classes.length,
      )
    : [];
  return {
    facts,
    load: (agreed = facts) => ({
      train: new ArrayDataset(train, agreed),
      test: new ArrayDataset(test, agreed),
      all: null,
    }),
    preview: {
      kind: 'images',
      samples: train.rows.length + test.rows.length,
      heldOut: test.rows.length,
      shape,
      classes: classes.map((name) => ({ name, count: counts.get(Number(name))! })),
      pictures: await Promise.all(
        shown.map(async (index) => augmentedPreview(augment, await trained.preview(index), { seed, index })),
      ),
      notes: [
        ...ignored,
        ...augmentNotes(augment, train.rows.length),
        ...notesOnUntestedClasses(
          [...counts].map(([label, count]) => [String(label), count]),
          (label) => tested.has(Number(label)),
        ),
      ],
    },
  };
}

/**
 * Returns the same key for types whose numbers have the same scale. All float types have the same
 * scale. Bytes (0 to 255) and floats (often 0 to 1) have different scales.
 */
function scaleOf({ type }: StoredArray): string {
  return type === 'u1' ? type : type.slice(0, 1);
}

/** @throws DataError */
function checkEnough(name: string, samples: number, isShard: boolean): void {
  const least = isShard ? LEAST_OWN_SAMPLES : 2;
  if (samples >= least) return;
  const few = samples === 1 ? '1 sample is' : `${samples} samples are`;
  throw new DataError(
    `${name}: ${few} too few for training and evaluation${isShard ? `. Each tab needs at least ${least}` : ''}. Add samples.`,
  );
}

function countsOfLabels(parts: readonly LabelledRows[]): Map<number, number> {
  const counts = new Map<number, number>();
  for (const { rows, y } of parts) for (const row of rows) counts.set(y[row]!, (counts.get(y[row]!) ?? 0) + 1);
  return counts;
}

/**
 * Checks held-out labels.
 *
 * @throws DataError if a held-out sample has a label that no training sample has.
 */
function checkHeldOut({ x, y }: LabelledRows, test: LabelledRows): void {
  const known = new Set(y);
  const odd = test.rows.find((row) => !known.has(test.y[row]!));
  if (odd === undefined) return;
  throw new DataError(
    `${test.x.name}: held-out row ${odd} has label ${test.y[odd]}, but no sample of ${x.name} has this label. Add such samples, or remove the row.`,
  );
}

async function arraysOf({ x, y }: Pair): Promise<LabelledRows> {
  const labels = await readLabels(x, y);
  return { x, y: labels, rows: Uint32Array.from(labels, (_, i) => i) };
}

async function ofPictures(
  name: string,
  files: readonly DataFile[],
  { seed, side, channels, augment }: ImagesJob,
  { isShard = false, decode, onundecoded }: OpenOptions,
): Promise<OpenedImages> {
  const found = await findPictures(name, files, decode ?? decodePicture);
  const folders: ClassFolders = findClassFolders(name, found, { seed, isShard });
  for (const { place } of folders.pictures) if (place.in === 'zip') checkZipEntry(place.entry);
  const classes = [...folders.classes];
  checkEnough(name, folders.pictures.length, isShard);
  checkImageClasses(name, { isNumbered: false, classes }, isShard);
  const perClass = pictureCountsByClass(folders);
  if (!isShard && !folders.isSplit)
    checkClassesCanSplit(
      name,
      perClass.map(({ count }) => count),
    );
  const readAll = decode === undefined ? readPicturesInWorkers : readPicturesWith(decode);
  const pictures = new PictureFiles(folders, { side, channels }, readAll, onundecoded);
  const shown = await pictures.preview(
    firsts(
      folders.pictures.map(({ label }) => label),
      folders.classes.length,
    ),
  );
  const { train, test } = folders.split;
  const tested = new Set(Array.from(test, (at) => classes[folders.pictures[at]!.label]!));
  const facts: ImagesFacts = {
    kind: 'images',
    shape: [side, side, channels],
    isNumbered: false,
    classes,
    untrained: [...folders.untrained],
    moments: null,
  };
  return {
    facts,
    load: (agreed = facts) => ({
      train: new PictureDataset(pictures, train, agreed),
      test: new PictureDataset(pictures, test, agreed),
      get all() {
        return new PictureDataset(pictures, Uint32Array.from(folders.pictures.keys()), agreed);
      },
    }),
    preview: {
      kind: 'images',
      samples: folders.pictures.length,
      heldOut: test.length,
      shape: [side, side, channels],
      classes: perClass,
      pictures: shown.map(({ at, picture }) => augmentedPreview(augment, picture, { seed, index: train.indexOf(at) })),
      notes: [
        ...folders.notes,
        ...fileNotesByFolder('pictures-undecoded', pictures.undecoded),
        ...augmentNotes(augment, train.length),
        ...notesOnUntestedClasses(
          perClass.map(({ name: one, count }) => [one, count]),
          (one) => tested.has(one),
        ),
      ],
    },
  };
}

/** Returns the indices of up to {@link SHOWN} samples: the first samples of each class. */
function firsts(labels: readonly number[], classes: number): number[] {
  const each = Math.ceil(SHOWN / classes);
  const byClass = Array.from({ length: Math.min(classes, SHOWN) }, (): number[] => []);
  for (const [i, label] of labels.entries()) if ((byClass[label]?.length ?? each) < each) byClass[label]!.push(i);
  return byClass.flat().slice(0, SHOWN);
}
