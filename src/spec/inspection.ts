/**
 * A view of what a model has learned, as pictures: the answer to the command `inspect`. About 60 kB
 * for any model size.
 */

/** Pixels per side of the images that the built-in jobs classify. */
export const IMAGE_SIDE = 28;

/** A held-out image. */
export interface LabelledImage {
  /** IMAGE_SIDE x IMAGE_SIDE pixels, row by row: 0 is blank, 255 is ink. */
  pixels: Uint8Array;
  label: number;
}

/** A held-out image with a wrong prediction. */
export interface Mistake extends LabelledImage {
  guess: number;
  /** Predicted probability of the guess. */
  probability: number;
}

/**
 * Weights of the first layer, one picture per unit: how much a pixel raises or lowers the unit's
 * output.
 */
export interface WeightPictures {
  /**
   * Pixels per side of a picture: the whole image for dense units, otherwise the convolution
   * window.
   */
  side: number;
  /** Number of pictures, and number of units in the layer. */
  count: number;
  units: number;
  /** [count, side, side]; a weight is its value / 127 * scale. */
  values: Int8Array;
  /** The largest absolute weight in the pictures. */
  scale: number;
}

export interface ModelInspection {
  /** Number of optimizer steps applied to the model. */
  steps: number;
  /** Digest of parameters and optimizer state after these steps. */
  stateHash: string;
  /**
   * Number of evaluated held-out images, the same for all ranks and steps, and of those with a
   * wrong prediction.
   */
  asked: number;
  wrong: number;
  /** Some wrong predictions, those with the highest probability first. */
  mistakes: Mistake[];
  /** One image of each label, always the same. */
  examples: LabelledImage[];
  /** `null` if the weights of the first layer cannot be shown as pictures. */
  weights: WeightPictures | null;
}
