/**
 * Answers queries about a model: the class of an image, the held-out images that the model
 * classifies wrongly, and the weights of its first layer. Each answer needs one forward pass and
 * one readback from the GPU. The whole pass is recorded in one turn of the event loop, so that it
 * uses the weights of a single step. Queries change nothing on which all ranks must agree.
 */
import * as tf from '@tensorflow/tfjs';
import { sampleLength, type Dataset, type JobModel } from '../../jobs/index.ts';
import { TensorReader } from '../../parallel/backward/flatten.ts';
import type { EngineCommand } from '../../protocol/commands.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import { learnsDigits, type JobSpec } from '../../spec/job.ts';
import type { LabelledImage, ModelInspection, MistakenImage, WeightPictures } from '../../spec/inspection.ts';
import type { SampleFacts } from '../../spec/dataFacts.ts';
import { mixSeed, seededPermutation } from '../../util/rng.ts';
import { TextGenerator } from './textGenerator.ts';

/**
 * Held-out images per inspection. A model with 95 % accuracy makes about a dozen mistakes on them,
 * and the pass takes a few milliseconds on a GPU.
 */
const ASKED = 256;
/** The largest number of mistakes in an answer. A person would not look at more. */
const MOST_MISTAKES = 12;
/** The largest number of pictures of weights in an answer. */
const MOST_PICTURES = 32;
/** Makes the choice of images independent of the job's other random numbers. */
const CHOICE_WORD = 0x1ea27;
/** Groups of the reader's staging buffers: one group for each kind of query. */
const PREDICTION = 0;
const EXAMINATION = 1;

/** The result of an inspection, without the training state to which it belongs. */
type Findings = Omit<ModelInspection, 'steps' | 'stateHash'>;

/** A model that can answer queries, and its current training state. */
export interface QueryAnswerer {
  model: InspectedModel | TextGenerator;
  progress: () => Pick<ModelInspection, 'steps' | 'stateHash'>;
}

/**
 * Returns the event that answers `question`. Its `answer` is `null` if there is no model, if the
 * model cannot be read, or if its weights are NaN.
 */
export async function answerModelQuery(
  question: Extract<EngineCommand, { type: 'predict' | 'inspect' | 'generate' }>,
  answerer: QueryAnswerer | null,
): Promise<EngineEvent> {
  // The state is read first, and there is no await before the pass, so the pass uses the weights of
  // this state.
  const progress = answerer?.progress();
  const author = answerer?.model instanceof TextGenerator ? answerer.model : null;
  const classifier = answerer?.model instanceof InspectedModel ? answerer.model : null;
  if (question.type === 'generate') {
    const text = (await author?.write(question).catch(() => null)) ?? null;
    return {
      type: 'generated',
      id: question.id,
      answer: progress && text !== null ? { text, steps: progress.steps } : null,
    };
  }
  if (question.type === 'predict') {
    const probabilities = (await classifier?.predict(question.pixels).catch(() => null)) ?? null;
    const found = progress && probabilities ? { probabilities, steps: progress.steps } : null;
    return { type: 'prediction', id: question.id, answer: found };
  }
  const found = (await classifier?.inspect().catch(() => null)) ?? null;
  return { type: 'inspection', inspection: progress && found ? { ...progress, ...found } : null };
}

/** A model that answers queries. Queries must not overlap. */
export class InspectedModel {
  readonly jobModel: JobModel;
  /** The meaning of the model's inputs and outputs. `null` if the job already defines it. */
  readonly facts: SampleFacts | null;
  readonly #reader = new TensorReader();
  readonly #shape: readonly number[];
  readonly #classes: number;
  /**
   * Images chosen from the held-out images. They are copies, because the data set may be disposed
   * of before the model.
   */
  readonly #images: readonly LabelledImage[];
  /** float32 [images, ...shape]; `null` before the first inspection. */
  #inputs: tf.Tensor | null = null;

  private constructor(model: JobModel, heldOut: Dataset, images: readonly LabelledImage[]) {
    this.jobModel = model;
    this.facts = heldOut.facts ?? null;
    this.#shape = heldOut.inputShape;
    this.#classes = heldOut.classes;
    this.#images = images;
  }

  /**
   * @param model disposed of together with this object.
   * @param heldOut the held-out samples. Inspections choose images from them if they are images of
   *   digits.
   */
  static async create(model: JobModel, heldOut: Dataset, job: Pick<JobSpec, 'job' | 'seed'>): Promise<InspectedModel> {
    const asked = learnsDigits(job.job) ? ASKED : 0;
    const chosen = seededPermutation(heldOut.size, mixSeed(job.seed, CHOICE_WORD)).subarray(0, asked);
    const inputs = new Float32Array(sampleLength(heldOut));
    const labels = new Int32Array(1);
    const images: LabelledImage[] = [];
    for (const index of chosen) {
      await heldOut.read([index], inputs, labels);
      images.push({ pixels: Uint8Array.from(inputs, (ink) => Math.round(255 * ink)), label: labels[0]! });
    }
    return new InspectedModel(model, heldOut, images);
  }

  /**
   * Returns the probability of each class; `null` if weights are NaN.
   *
   * @throws (rejects) DeviceError if the GPU is lost.
   */
  async predict(pixels: Float32Array): Promise<number[] | null> {
    const probabilities = tf.tidy(() => tf.softmax(this.jobModel.logits(tf.tensor(pixels, [1, ...this.#shape]))));
    const values = await this.#read(PREDICTION, [probabilities]);
    return values.every(Number.isFinite) ? Array.from(values) : null;
  }

  /**
   * Returns the chosen images that the model classifies most confidently as a wrong class, and
   * pictures of the first layer's weights. Returns `null` if there are no images, or if weights are
   * NaN.
   *
   * @throws (rejects) as {@link predict}.
   */
  async inspect(): Promise<Findings | null> {
    const images = this.#images;
    if (images.length === 0) return null;
    this.#inputs ??= this.#upload();
    const inputs = this.#inputs;
    const kernel = this.#kernel;
    const answers = tf.tidy(() => [
      tf.softmax(this.jobModel.logits(inputs)),
      ...(kernel === null ? [] : [firstLayer(kernel)]),
    ]);
    const values = await this.#read(EXAMINATION, answers);
    if (!values.every(Number.isFinite)) return null;
    const mistakes = images.flatMap((image, i) => {
      const guess = guessOf(values.subarray(i * this.#classes, (i + 1) * this.#classes));
      return guess.guess === image.label ? [] : [{ ...image, ...guess }];
    });
    const firsts = Array.from({ length: this.#classes }, (_, label) => images.find((image) => image.label === label));
    return {
      asked: images.length,
      wrong: mistakes.length,
      mistakes: mistakes.sort((a, b) => b.probability - a.probability).slice(0, MOST_MISTAKES),
      examples: firsts.filter((one) => one !== undefined),
      weights: kernel === null ? null : quantize(kernel, values.subarray(images.length * this.#classes)),
    };
  }

  dispose(): void {
    this.#reader.dispose();
    this.#inputs?.dispose();
    this.#inputs = null;
    this.jobModel.dispose();
  }

  #upload(): tf.Tensor {
    const pixels = Float32Array.from(
      this.#images.flatMap((image) => Array.from(image.pixels)),
      (ink) => ink / 255,
    );
    return tf.tensor(pixels, [this.#images.length, ...this.#shape]);
  }

  /**
   * The first layer's kernel; `null` if its units are not weighted sums over a square of pixels.
   */
  get #kernel(): Kernel | null {
    const variable = this.jobModel.variables[0]!;
    const units = variable.shape.at(-1)!;
    const side = Math.sqrt(variable.size / units);
    return variable.rank > 1 && side > 1 && Number.isInteger(side) ? { variable, units, side } : null;
  }

  /** Reads `tensors` and disposes of them. */
  async #read(group: number, tensors: readonly tf.Tensor[]): Promise<Float32Array> {
    const values = new Float32Array(tensors.reduce((sum, { size }) => sum + size, 0));
    try {
      await this.#reader.read(group, tensors, values);
      return values;
    } finally {
      tf.dispose([...tensors]);
    }
  }
}

/** The weights of the first layer. Each unit computes a weighted sum over a square of pixels. */
interface Kernel {
  variable: tf.Variable;
  units: number;
  side: number;
}

/**
 * Returns float32 [pictures, pixels]. The tensor is a copy, because the next step may change the
 * kernel during the read.
 */
function firstLayer({ variable, units, side }: Kernel): tf.Tensor {
  const area = side * side;
  return variable
    .reshape<tf.Tensor2D>([area, units])
    .slice([0, 0], [area, Math.min(units, MOST_PICTURES)])
    .transpose();
}

function quantize({ units, side }: Kernel, weights: Float32Array): WeightPictures {
  const scale = weights.reduce((most, weight) => Math.max(most, Math.abs(weight)), 0);
  const values = Int8Array.from(weights, (weight) => (scale > 0 ? Math.round((127 * weight) / scale) : 0));
  return { side, count: weights.length / (side * side), units, values, scale };
}

/**
 * Returns the most probable class. If several classes are equally probable, returns the first of
 * them.
 */
function guessOf(probabilities: Float32Array): Pick<MistakenImage, 'guess' | 'probability'> {
  const probability = Math.max(...probabilities);
  return { guess: probabilities.indexOf(probability), probability };
}
