/**
 * The answer to the command `inspect`: pictures of what a model has learned. The answer is about 60
 * kB for any model size.
 */

/** Pixels per side of the images that the built-in jobs classify. */
export const BUILT_IN_IMAGE_SIDE = 28;

/** A held-out image. */
export interface LabelledImage {
  /** BUILT_IN_IMAGE_SIDE x BUILT_IN_IMAGE_SIDE pixels, row by row: 0 is blank, 255 is ink. */
  pixels: Uint8Array;
  label: number;
}

/** A held-out image with a wrong prediction. */
export interface MistakenImage extends LabelledImage {
  guess: number;
  /** Predicted probability of the guess. */
  probability: number;
}

/**
 * Weights of the first layer, one picture per unit. A pixel's weight says how much the pixel raises
 * or lowers the unit's output.
 */
export interface WeightPictures {
  /**
   * Pixels per side of a picture. For a dense layer a picture has the size of the image; for a
   * convolution, the size of its window.
   */
  side: number;
  /** Number of pictures (`count`), and number of units in the layer (`units`). */
  count: number;
  units: number;
  /** The pictures, of shape [count, side, side]. A weight is value / 127 * scale. */
  values: Int8Array;
  /** The largest absolute weight in the pictures. */
  scale: number;
}

export interface ModelInspection {
  /** Number of optimizer steps applied to the model. */
  steps: number;
  /** Digest of the model's parameters and optimizer state after `steps` steps. */
  stateHash: string;
  /**
   * Number of evaluated held-out images (`asked`), and how many of them have a wrong prediction
   * (`wrong`). The images are the same on all ranks and after all steps.
   */
  asked: number;
  wrong: number;
  /** Some images with a wrong prediction, sorted by descending probability of the prediction. */
  mistakes: MistakenImage[];
  /** One image of each label. The images never change. */
  examples: LabelledImage[];
  /** The weights of the first layer; `null` if they cannot be shown as pictures. */
  weights: WeightPictures | null;
}
