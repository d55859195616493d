/**
 * Generates text with the model of a `gpt` job. The text continues a prompt. All weights are read
 * from the GPU in one turn of the event loop, so that they belong to the same step. The CPU
 * generates the text, with pauses in which the tab handles messages.
 */
import { TokenSampler, type KeptModel, type Network, type Tokenizer } from '../../jobs/index.ts';
import { TensorReader } from '../../parallel/ddp/flatten.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import { mixSeed } from '../../util/rng.ts';
import { systemClock } from '../../util/clock.ts';
import { Yielder } from '../../util/yielder.ts';

/**
 * Groups of the reader's staging buffers. There are two, because weights may be read for a sample
 * and for an answer at the same time.
 */
const SAMPLE = 0;
const ANSWER = 1;
/** Tokens of a sample. They are a few lines of text. */
const LENGTH = 160;
/** Temperature of samples during training. Texts vary, but stay readable. */
const USUAL_TEMPERATURE = 0.8;
/**
 * Milliseconds of computation without a pause. During this time the tab cannot handle messages from
 * its links.
 */
const STRETCH_MS = 20;
/** Makes samples independent of the job's other random numbers. */
const SAMPLE_WORD = 0x5a3;

/** A prompt and a temperature; see {@link TokenSampler.sample}. */
interface Request {
  prompt: string;
  temperature: number;
}

export class TextGenerator {
  /** Loss of a bigram model on the held-out text, nats per character. */
  readonly bigramLoss: number;
  /** The prompt of all samples. */
  readonly prompt: string;
  readonly #network: Network;
  readonly #tokenizer: Tokenizer;
  readonly #seed: number;
  readonly #reader = new TensorReader();

  /** @param network disposed of together with this object. */
  constructor(
    network: Network,
    tokenizer: Tokenizer,
    { prompt, seed, bigramLoss }: { prompt: string; seed: number; bigramLoss: number },
  ) {
    this.bigramLoss = bigramLoss;
    this.#network = network;
    this.#tokenizer = tokenizer;
    this.prompt = prompt;
    this.#seed = mixSeed(seed, SAMPLE_WORD);
  }

  /** The meaning of the model's tokens. */
  get vocabulary(): Vocabulary {
    return this.#tokenizer.vocabulary;
  }

  /** The model's weights and topology, as model files need them. */
  get jobModel(): KeptModel {
    const { names, variables } = this.#network;
    return { names, variables, topology: null };
  }

  /** Continues the job's prompt; see {@link write}. */
  sample(): Promise<string | null> {
    return this.#continue(SAMPLE, { prompt: this.prompt, temperature: USUAL_TEMPERATURE });
  }

  /**
   * Returns a continuation of the prompt. The same weights and request always produce the same
   * text. Requests must not overlap.
   *
   * @returns `null` if weights are NaN.
   * @throws (rejects) DeviceError if the GPU is lost.
   */
  write(request: Request): Promise<string | null> {
    return this.#continue(ANSWER, request);
  }

  async #continue(group: number, { prompt, temperature }: Request): Promise<string | null> {
    const { variables, size } = this.#network;
    const weights = new Float32Array(variables.reduce((sum, variable) => sum + variable.size, 0));
    await this.#reader.read(group, variables, weights);
    if (!weights.every(Number.isFinite)) return null;
    const known = this.#tokenizer.encode(prompt);
    // A prompt without any known token is replaced by token 0.
    const start = known.length > 0 ? known : Uint16Array.of(0);
    const tokens = new TokenSampler(size, this.#tokenizer.size, weights).sample(start, {
      temperature,
      seed: this.#seed,
    });
    const written: number[] = [];
    const yielder = new Yielder(systemClock, STRETCH_MS);
    while (written.length < LENGTH) {
      written.push(tokens.next().value);
      await yielder.yieldIfDue();
    }
    return this.#tokenizer.decode(written);
  }

  dispose(): void {
    this.#reader.dispose();
    this.#network.dispose();
  }
}
