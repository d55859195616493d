/**
 * Generates text with the model of a `gpt` job. The text continues a prompt. All weights are read
 * from the GPU in one turn of the event loop, so that they belong to the same step. The CPU
 * generates the text, with pauses in which the tab handles messages.
 */
import { createTokenForward, type SavableModel, type GptNetwork, type Tokenizer } from '../../jobs/index.ts';
import { TensorReader } from '../../parallel/backward/flatten.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import { continueText, sampleTextRequest, type TextContinuationRequest } from './continueText.ts';

/**
 * Groups of the reader's staging buffers. There are two, because weights may be read for a sample
 * and for an answer at the same time.
 */
const SAMPLE = 0;
const ANSWER = 1;

export class TextGenerator {
  /** Loss of a bigram model on the held-out text, nats per character. */
  readonly bigramLoss: number;
  readonly prompt: string;
  readonly #network: GptNetwork;
  readonly #tokenizer: Tokenizer;
  readonly #seed: number;
  readonly #reader = new TensorReader();

  /** @param network disposed of together with this object. */
  constructor(
    network: GptNetwork,
    tokenizer: Tokenizer,
    { prompt, seed, bigramLoss }: { prompt: string; seed: number; bigramLoss: number },
  ) {
    this.bigramLoss = bigramLoss;
    this.#network = network;
    this.#tokenizer = tokenizer;
    this.prompt = prompt;
    this.#seed = seed;
  }

  /** The meaning of the model's tokens. */
  get vocabulary(): Vocabulary {
    return this.#tokenizer.vocabulary;
  }

  /** The model's weights and topology, as model files need them. */
  get jobModel(): SavableModel {
    const { names, variables } = this.#network;
    return { names, variables, topology: null };
  }

  /** Continues the job's prompt; see {@link write}. */
  sample(): Promise<string | null> {
    return this.#continue(SAMPLE, sampleTextRequest(this.prompt));
  }

  /**
   * Returns a continuation of the prompt. The same weights and request always produce the same
   * text. Requests must not overlap.
   *
   * @returns `null` if weights are NaN.
   * @throws (rejects) DeviceError if the GPU is lost.
   */
  write(request: TextContinuationRequest): Promise<string | null> {
    return this.#continue(ANSWER, request);
  }

  async #continue(group: number, request: TextContinuationRequest): Promise<string | null> {
    const { variables, size } = this.#network;
    const weights = new Float32Array(variables.reduce((sum, variable) => sum + variable.size, 0));
    await this.#reader.read(group, variables, weights);
    if (!weights.every(Number.isFinite)) return null;
    const forward = createTokenForward(size, this.#tokenizer.size, weights);
    return continueText(forward, { tokenizer: this.#tokenizer, context: size.context, seed: this.#seed }, request);
  }

  dispose(): void {
    this.#reader.dispose();
    this.#network.dispose();
  }
}
