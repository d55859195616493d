/**
 * Asking a language model to write: what the `gpt` job's model continues a prompt with. Weights are
 * read from the GPU in one turn of the event loop, so that they are those after one step; writing
 * itself is done on the processor, in short stretches.
 */
import { TokenSampler, type KeptModel, type Network, type Tokenizer } from '../../jobs/index.ts';
import { TensorReader } from '../../parallel/ddp/flatten.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import { mixSeed } from '../../util/rng.ts';
import { systemClock } from '../../util/clock.ts';
import { Yielder } from '../../util/yielder.ts';

/** The reader's staging buffers: a sample and an answer may be read at once. */
const SAMPLE = 0;
const ANSWER = 1;
/** Tokens of a sample: a few lines. */
const LENGTH = 160;
/** Temperature of samples that nobody asked for: lively, but not wild. */
const USUAL_TEMPERATURE = 0.8;
/** Milliseconds of writing without a pause, in which links are not served. */
const STRETCH_MS = 20;
/** Keeps samples apart from the job's other random numbers. */
const SAMPLE_WORD = 0x5a3;

/** What to begin with, and how daring to be; see {@link TokenSampler.sample}. */
interface Request {
  prompt: string;
  temperature: number;
}

export class TextGenerator {
  /** Loss of a bigram model on the held-out text, nats per character. */
  readonly bigramLoss: number;
  /** What samples begin with. */
  readonly prompt: string;
  readonly #network: Network;
  readonly #tokenizer: Tokenizer;
  readonly #seed: number;
  readonly #reader = new TensorReader();

  /** @param network is disposed of with this. */
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

  /** What its tokens stand for. */
  get vocabulary(): Vocabulary {
    return this.#tokenizer.vocabulary;
  }

  /** What is kept of it. */
  get jobModel(): KeptModel {
    const { names, variables } = this.#network;
    return { names, variables, topology: null };
  }

  /** What the job's prompt is continued with; see {@link write}. */
  sample(): Promise<string | null> {
    return this.#continue(SAMPLE, { prompt: this.prompt, temperature: USUAL_TEMPERATURE });
  }

  /**
   * The text behind the prompt; by the same weights the same each time. One request at a time.
   *
   * @returns `null` if weights are NaN.
   * @throws (rejects) DeviceError where the GPU is lost.
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
    // What it has no tokens for is no beginning.
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
