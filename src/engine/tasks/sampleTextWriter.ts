/**
 * Samples of text that a language model writes during training: after the first steps, then less
 * and less often, and after the final step.
 */
import type { EngineEvent } from '../../protocol/events.ts';
import type { WrittenSample } from '../../protocol/runResult.ts';
import type { TextGenerator } from './textGenerator.ts';

/** A sample is written after these numbers of steps, and after these numbers times 10, 100, ... */
const MILESTONES = [1, 2, 5];

/** A language model that continues the prompt of a run. */
type SampleAuthor = Pick<TextGenerator, 'sample' | 'prompt' | 'bigramLoss'>;

export class SampleTextWriter {
  readonly #author: SampleAuthor;
  readonly #emit: (event: EngineEvent) => void;
  readonly #written: WrittenSample[];
  #loss = 0;

  /** @param written the samples that the run already has. */
  constructor(author: SampleAuthor, emit: (event: EngineEvent) => void, written: readonly WrittenSample[]) {
    this.#author = author;
    this.#written = [...written];
    this.#emit = emit;
  }

  get written(): readonly WrittenSample[] {
    return this.#written;
  }

  /**
   * Writes a sample if one is due after `steps` steps. `loss` is that of the latest step. Meanwhile
   * the run waits, so that the weights do not change.
   */
  async applied(steps: number, loss: number): Promise<void> {
    this.#loss = loss;
    if (isMilestone(steps)) await this.#write(steps);
  }

  /** Writes the final sample if it is missing. Returns the texts of a run of `steps` steps. */
  async finish(steps: number): Promise<{ bigramLoss: number; samples: WrittenSample[] }> {
    if (this.#written.at(-1)?.steps !== steps) await this.#write(steps);
    return { bigramLoss: this.#author.bigramLoss, samples: [...this.#written] };
  }

  async #write(steps: number): Promise<void> {
    const text = await this.#author.sample();
    if (text === null) return;
    const sample = { steps, loss: this.#loss, prompt: this.#author.prompt, text };
    this.#written.push(sample);
    this.#emit({ type: 'sample', ...sample, bigramLoss: this.#author.bigramLoss });
  }
}

function isMilestone(steps: number): boolean {
  return MILESTONES.some((first) => {
    let milestone = first;
    while (milestone < steps) milestone *= 10;
    return milestone === steps;
  });
}
