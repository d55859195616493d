/** Finds the classes of pictures in folders. The name of a folder is the class of its pictures. */
import type { DataNote, PreviewClass } from '../../spec/preview.ts';
import { DataError } from '../../util/errors.ts';
import { fileNotesByFolder, folderOfPath } from '../fileNotes.ts';
import type { DataFile } from '../dataFile.ts';
import type { FoundPictures } from './findPictures.ts';
import { trainTestSplit, type TrainTestSplit } from '../trainTestSplit.ts';

/**
 * Maximum size of a picture file, in bytes. The limit is needed because a small zip file may claim
 * to contain gigabytes.
 */
const MAX_PICTURE_BYTES = 64 * 1024 * 1024;

export interface LabelledPicture extends DataFile {
  label: number;
}

export interface ClassFolders {
  classes: readonly string[];
  /** Classes that only occur among held-out pictures. */
  untrained: readonly string[];
  pictures: readonly LabelledPicture[];
  /** Whether the names of folders define the split. */
  isSplit: boolean;
  /** Indices into `pictures`. */
  split: TrainTestSplit;
  /** Files that are not pictures, and pictures without a class. */
  notes: readonly DataNote[];
}

type Part = keyof TrainTestSplit;

/** A picture and its position in the folders. */
interface Placed extends DataFile {
  file: string;
  /** Path of the picture's folder; empty if the picture is not in a folder. */
  folder: string;
  /** Name of the innermost folder; `undefined` if the picture is not in a folder. */
  of: string | undefined;
  /** The split that is stated by the name of an outer folder, such as `test`. */
  part: Part | null;
}

interface Sample extends Placed {
  of: string;
}

/** Matches names of folders with held-out pictures. */
const HELD_OUT = /^(test(ing)?|val(id|idation)?)$/i;
/**
 * Match folder names that contain a word for a split, as in data sets from Kaggle: `seg_train`,
 * `training_set`, `test1`.
 */
const PARTS = [
  ['train', /(^|[\d._-])train(ing)?($|[\d._-])/i],
  ['test', /(^|[\d._-])(test(ing)?|val(id|idation)?)($|[\d._-])/i],
] as const;
/** Matches folders that may be between a class and its pictures, as in `cats/images/1.png`. */
const BETWEEN = /^(images?|imgs?|pictures?|pics?|photos?|data|files|jpe?gs?|pngs?)$/i;
/** Advice about files that are not pictures. */
const ADVICE: readonly (readonly [RegExp, string])[] = [
  [/\.(csv|tsv)(\.gz)?$/i, 'It is a table. Choose the job table, and the CSV file itself: unpack it first.'],
  [/\.npy$/i, 'It is a single array. Save samples and labels in one file: np.savez("set.npz", x=x, y=y).'],
  [
    /\.(zip|npz|tar|tgz|gz|7z|rar)$/i,
    'It is an archive. Unpack it and choose its contents, or choose a single npz or zip file.',
  ],
  [/\.txt$/i, 'It is a text. Choose the job gpt to train on texts.'],
];
/** Maximum number of classes that an error lists. */
const MOST_NAMED = 6;

/**
 * Finds the class of each picture. If the folders of the classes are in folders called `train` and
 * `test` (or `val`), these define the split, and pictures in other folders are left out.
 *
 * @param name the zip file or folder, for errors.
 * @param isShard whether the files are the shard of one tab. If so, a class may have only held-out
 *   pictures here, because other tabs may have training pictures of the class.
 * @throws DataError if there are no pictures, a picture is too large, or the class of a picture is
 *   unclear. The error names a file.
 */
export function findClassFolders(
  name: string,
  { pictures, others, undecoded, hidden }: FoundPictures,
  { seed, isShard }: { seed: number; isShard: boolean },
): ClassFolders {
  if (pictures.length === 0) throw nothingIn(name, others, hidden);
  const below = inEach(pictures);
  const placed = pictures.map((file) => ({
    ...file,
    ...placeOf(below === null ? file.path : file.path.replace(`/${below}/`, '/')),
  }));
  const found = placed.some(({ part }) => part === 'train') ? inParts(placed) : inFolders(name, placed);
  checkNesting(name, found);
  const large = found.find(({ size }) => size > MAX_PICTURE_BYTES);
  if (large !== undefined) {
    throw new DataError(
      `${name}: ${large.path} has ${large.size} bytes, more than ${MAX_PICTURE_BYTES}. Make it smaller, or remove it.`,
    );
  }
  // With this sort order, a folder and a zip file of the folder give the same samples on every
  // machine.
  found.sort((a, b) => compare(a.of, b.of) || compare(a.file, b.file) || compare(a.path, b.path));
  const classes = [...new Set(found.map((one) => one.of))];
  const numbersOf = (part: Part): Uint32Array =>
    Uint32Array.from(found.flatMap((one, i) => (one.part === part ? [i] : [])));
  const named = { train: numbersOf('train'), test: numbersOf('test') };
  const isNamed = named.train.length > 0 && named.test.length > 0;
  const trained = new Set(found.flatMap((one) => (one.part === 'train' ? [one.of] : [])));
  const untrained = isNamed ? classes.filter((one) => !trained.has(one)) : [];
  if (untrained.length > 0 && !isShard) throw strangerIn(name, found, trained);
  const kept = new Set(found.map(({ path }) => path));
  const labels = found.map(({ of }) => classes.indexOf(of));
  return {
    classes,
    untrained,
    pictures: found.map((one, i) => ({ ...one, label: labels[i]! })),
    isSplit: isNamed,
    split: isNamed ? named : trainTestSplit(labels, seed),
    notes: [
      ...(below === null
        ? []
        : [{ kind: 'class-above', count: found.length, name: below, example: found[0]!.path } as const]),
      ...(isNamed ? [] : mergedIn(found)),
      ...guessedIn(found),
      ...fileNotesByFolder('files-ignored', others.map(pathOf)),
      ...fileNotesByFolder('folder-hidden', hidden.map(pathOf)),
      ...fileNotesByFolder('pictures-undecoded', undecoded.map(pathOf)),
      ...fileNotesByFolder(
        'folder-left-out',
        placed.map(pathOf).filter((path) => !kept.has(path)),
      ),
    ],
  };
}

/**
 * Returns the name of the folder that is between each class and its pictures, as in
 * `cats/images/1.png`; otherwise `null`.
 */
function inEach(pictures: readonly DataFile[]): string | null {
  const folders = new Set(pictures.map(({ path }) => folderOfPath(path)));
  const names = new Set([...folders].map((folder) => folder.split('/').at(-1)!));
  const [inner = ''] = names;
  const isBetween = [...folders].every((folder) => partOf([folder.split('/').at(-2) ?? 'train']) === null);
  return names.size === 1 && folders.size > 1 && isBetween && BETWEEN.test(inner) ? inner : null;
}

function pathOf({ path }: DataFile): string {
  return path;
}

/** Returns notes about classes whose pictures are in several folders of the same name. */
function mergedIn(found: readonly Sample[]): DataNote[] {
  const notes = new Map<string, DataNote>();
  for (const [folder, name] of new Map(found.map((one) => [one.folder, one.of]))) {
    const note = notes.get(name);
    if (note === undefined) notes.set(name, { kind: 'folders-merged', count: 1, name, example: folder });
    else if (++note.count === 2) note.example += ` and ${folder}`;
  }
  return [...notes.values()].filter(({ count }) => count > 1);
}

/**
 * Returns a note if the encoding of some names is guessed, because folder names are class names.
 */
function guessedIn(found: readonly Sample[]): DataNote[] {
  const guessed = found.filter((one) => one.guessed);
  const [first] = guessed;
  if (first === undefined) return [];
  return [{ kind: 'names-guessed', count: guessed.length, name: first.guessed!, example: first.path }];
}

/** Returns an error that says what to do with files that are not pictures. */
function nothingIn(name: string, others: readonly DataFile[], [hidden]: readonly DataFile[]): DataError {
  if (hidden !== undefined) {
    return new DataError(
      `${name} has no pictures: ${hidden.path} is in a hidden folder. Rename the folder, so that its name does not begin with a dot.`,
    );
  }
  const [first] = others;
  const found = first === undefined ? '' : `: ${first.path} is not a picture`;
  const advice = ADVICE.find(([pattern]) => first !== undefined && pattern.test(first.path))?.[1];
  return new DataError(
    `${name} has no pictures${found}. ${advice ?? 'Put png, jpg, gif, webp, bmp or avif files into a folder for each class.'}`,
  );
}

/**
 * Returns the samples if a folder `train` contains the folders of the classes. Pictures outside
 * such folders and unlabelled test pictures are left out.
 */
function inParts(placed: readonly Placed[]): Sample[] {
  const trained = new Set(placed.flatMap(({ part, of }) => (part === 'train' ? [of] : [])));
  return placed.filter(
    (one): one is Sample =>
      // Archives from Kaggle often have unlabelled test pictures in a folder within a folder of the
      // same name, such as test/test/1.png. The inner folder is only a class if `train` has this
      // class.
      one.part === 'train' || (one.part === 'test' && (trained.has(one.of) || partOf([one.of!]) !== 'test')),
  );
}

/**
 * Returns the samples if no folder `train` contains the folders of the classes. Every folder with
 * pictures is then a class, except folders with a name such as `test`, whose pictures are left out.
 *
 * @throws DataError if the class of a picture is unclear.
 */
function inFolders(name: string, placed: readonly Placed[]): Sample[] {
  const folders = [...new Set(placed.map(({ of }) => of))];
  const top = placed.find(({ of }) => of === undefined);
  if (top !== undefined) {
    throw new DataError(
      `${name}: ${top.path} is not in a folder, but the class of a picture is the name of its folder. Put each picture into a folder.`,
    );
  }
  const parts = folders.map((of) => partOf([of!]));
  if (parts.includes('train') && parts.includes('test') && !parts.includes(null)) {
    throw new DataError(
      `${name}: the class of ${placed[0]!.path} is unknown, because the folder ${JSON.stringify(placed[0]!.of)} only names ` +
        'the split. Put each picture into a folder of its class: train/cats/1.png.',
    );
  }
  // If there are at most two folders, one called "test" or "valid" is a class, because the
  // classes may be test and control, or valid and invalid.
  const isClass = (of: string): boolean => !HELD_OUT.test(of) || folders.length <= 2;
  return placed.filter((one): one is Sample => isClass(one.of!));
}

/**
 * @throws DataError if a folder contains both pictures and folders with pictures, because the
 *   folder may be a class or contain classes.
 */
function checkNesting(name: string, found: readonly Sample[]): void {
  const inner = new Map<string, string>();
  for (const { folder } of found) {
    const steps = folder.split('/');
    for (let depth = 1; depth < steps.length; depth++) inner.set(steps.slice(0, depth).join('/'), folder);
  }
  const odd = found.find(({ folder }) => inner.has(folder));
  if (odd === undefined) return;
  throw new DataError(
    `${name}: the class of ${odd.path} is unclear, because ${odd.folder} and its inner folder ${inner.get(odd.folder)} both contain pictures. ` +
      'Move the picture into a folder of its class, or remove it.',
  );
}

function strangerIn(name: string, found: readonly Sample[], trained: ReadonlySet<string>): DataError {
  const odd = found.find(({ of }) => !trained.has(of))!;
  const twin = [...trained].find((one) => one.toLowerCase() === odd.of.toLowerCase());
  const some = [...trained].slice(0, MOST_NAMED).join(', ');
  return new DataError(
    `${name}: ${odd.path} is held out, but no training picture is in a folder ${JSON.stringify(odd.of)}. The classes are ${some}` +
      `${trained.size > MOST_NAMED ? ', ...' : ''}. ` +
      (twin === undefined
        ? 'Add such pictures to train, or remove the folder.'
        : `Rename the folder to ${JSON.stringify(twin)}, or remove it.`),
  );
}

export function pictureCountsByClass({ classes, pictures }: ClassFolders): PreviewClass[] {
  const counts = classes.map((name) => ({ name, count: 0 }));
  for (const { label } of pictures) counts[label]!.count++;
  return counts;
}

function placeOf(path: string): Omit<Placed, keyof DataFile> {
  const folders = path.split('/');
  const file = folders.pop()!;
  return { file, folder: folders.join('/'), of: folders.at(-1), part: partOf(folders.slice(0, -1)) };
}

/**
 * Returns the split that is stated by the names of the outer folders, such as `test`. If several
 * names state a split, the innermost folder decides.
 */
function partOf(folders: readonly string[]): Part | null {
  for (const folder of folders.toReversed()) {
    const matches = PARTS.filter(([, pattern]) => pattern.test(folder));
    if (matches.length === 1) return matches[0]![0];
  }
  return null;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
