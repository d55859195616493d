/**
 * `local-sgd`: every rank trains alone, and every H steps all ranks average their parameters,
 * weighted by samples. 2K(n-1)/(nH) bytes per rank and step: those of ddp divided by H. Each rank
 * keeps its own optimizer averages.
 *
 * Stich, "Local SGD Converges Fast and Communicates Little" (ICLR 2019); torch's post-local SGD
 * without its warm-up.
 */
import { LocalSteps } from './localSteps.ts';
import { Replica } from './replica.ts';
import type { StrategyOptions } from './strategy.ts';

export class LocalSgd extends LocalSteps {
  static async create(options: StrategyOptions & { syncEvery: number }): Promise<LocalSgd> {
    // Rounding parameters at every exchange would undo small changes.
    return new LocalSgd(await Replica.create(options), { ...options, codec: 'fp32', errorFeedback: false });
  }

  protected async exchange(): Promise<void> {
    await this.average(this.replica.parameters);
  }

  state(): readonly ArrayBufferView[] {
    return [this.replica.parameters];
  }
}
