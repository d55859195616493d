/**
 * What a model has learned, as pictures: the answer to the command `examine`. Some 60 kB, whatever
 * the model's size.
 */

/** Pixels per side of the images that our jobs classify. */
export const IMAGE_SIDE = 28;

/** A held-out image. */
export interface LabelledImage {
  /** IMAGE_SIDE x IMAGE_SIDE, row by row: 0 is paper, 255 ink. */
  pixels: Uint8Array;
  label: number;
}

/** One that is not answered with its label. */
export interface Mistake extends LabelledImage {
  guess: number;
  /** Of the guess. */
  probability: number;
}

/**
 * Weights of the first layer, a picture for each of its units: by how much a pixel there raises or
 * lowers what the unit tells.
 */
export interface WeightPictures {
  /**
   * Pixels per side of a picture: of the image where a unit sees all of it, else of the window that
   * it sees.
   */
  side: number;
  /** Pictures here, of so many units. */
  count: number;
  units: number;
  /** [count, side, side]; a weight is its value / 127 * scale. */
  values: Int8Array;
  /** The largest weight there is in the pictures, without its sign. */
  scale: number;
}

export interface Learned {
  /** Optimizer steps that the model has taken. */
  steps: number;
  /** Digest of parameters and optimizer state after them. */
  stateHash: string;
  /**
   * Held-out images that were asked about, the same for all ranks and steps, and how many of them
   * were answered wrong.
   */
  asked: number;
  wrong: number;
  /** Some of these, the surest first. */
  mistakes: Mistake[];
  /** One of each label, right or wrong, the same every time. */
  examples: LabelledImage[];
  /** `null` of a model whose first weights are no pictures. */
  weights: WeightPictures | null;
}
