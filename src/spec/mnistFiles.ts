/** Names of the files of MNIST and of data sets in its format. */

export const MNIST_SPLITS = ['train', 't10k'] as const;
export type MnistSplit = (typeof MNIST_SPLITS)[number];
export const MNIST_PARTS = ['images', 'labels'] as const;
export type MnistPart = (typeof MNIST_PARTS)[number];
export const MNIST_DIMENSIONS = { images: 3, labels: 1 } as const;

/**
 * Returns the possible names of a file: the original name, and the name that some archive programs
 * give it, each with and without `.gz`.
 */
export function possibleMnistFileNames(split: MnistSplit, part: MnistPart): string[] {
  const plain = ['-', '.'].map((mark) => `${split}-${part}${mark}idx${MNIST_DIMENSIONS[part]}-ubyte`);
  return plain.flatMap((name) => [`${name}.gz`, name]);
}

export function pathWithFileName(paths: readonly string[], name: string): string | undefined {
  return paths.find((one) => one.slice(one.lastIndexOf('/') + 1) === name);
}

/** Returns whether the files include the images and the labels of a split. */
export function hasMnistPair(paths: readonly string[]): boolean {
  const has = (split: MnistSplit, part: MnistPart): boolean =>
    possibleMnistFileNames(split, part).some((name) => pathWithFileName(paths, name) !== undefined);
  return MNIST_SPLITS.some((split) => MNIST_PARTS.every((part) => has(split, part)));
}
