/** Selected pictures as samples. */
import type { ImagesFacts } from '../../spec/dataFacts.ts';
import { checkReadArguments, sampleLength, type Dataset, type LazyFileContents, type Labels } from '../dataset.ts';
import type { FilePlace } from '../dataFile.ts';
import type { PictureFiles } from './pictures.ts';

/** Selected pictures as samples. Pixels 0 .. 255 are read as 0.0 .. 1.0. */
export class PictureDataset implements Dataset {
  readonly size: number;
  readonly inputShape: readonly [number, number, number];
  readonly classes: number;
  readonly classNames: readonly string[];
  readonly facts: ImagesFacts;
  readonly digest: string;
  readonly ahead: number;
  readonly contents: LazyFileContents;
  readonly #pictures: PictureFiles;
  readonly #chosen: Uint32Array;
  /** The label of each class of `folders.classes` in this dataset. */
  readonly #labels: readonly number[];

  /** @param facts facts whose classes include all classes of the pictures. */
  constructor(pictures: PictureFiles, chosen: Uint32Array, facts: ImagesFacts) {
    const { classes } = facts;
    const { side, channels } = pictures.size;
    this.size = chosen.length;
    this.inputShape = [side, side, channels];
    this.classNames = classes;
    this.classes = classes.length;
    this.facts = facts;
    this.digest = pictures.digest;
    this.ahead = pictures.ahead;
    this.contents = pictures;
    this.#labels = pictures.folders.classes.map((name) => classes.indexOf(name));
    this.#pictures = pictures;
    this.#chosen = chosen;
  }

  placeOf(index: number): FilePlace {
    return this.#pictures.folders.pictures[this.#chosen[index]!]!.place;
  }

  expect(next: readonly number[]): void {
    this.#pictures.expect(
      next.map((index) => this.#chosen[index]!),
      this,
    );
  }

  async read(indices: ArrayLike<number>, inputs: Float32Array, labels: Labels): Promise<number[]> {
    checkReadArguments(this, indices, inputs, labels);
    const chosen = Array.from(indices, (index) => this.#chosen[index]!);
    const all = await this.#pictures.read(chosen);
    const length = sampleLength(this);
    const leftOut: number[] = [];
    for (const [i, pixels] of all.entries()) {
      labels[i] = this.#labels[this.#pictures.folders.pictures[chosen[i]!]!.label]!;
      const to = i * length;
      if (pixels === null) {
        leftOut.push(i);
        inputs.fill(0, to, to + length);
      } else for (let k = 0; k < length; k++) inputs[to + k] = pixels[k]! / 255;
    }
    return leftOut;
  }
}
