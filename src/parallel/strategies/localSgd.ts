/**
 * `local-sgd`: every rank trains alone, and every H steps all ranks average their parameters,
 * weighted by samples. It sends 2K(n-1)/(nH) bytes per rank and step, which are the bytes of ddp
 * divided by H (K and n: see `strategy.ts`). Each rank has its own optimizer state.
 *
 * Stich, "Local SGD Converges Fast and Communicates Little" (ICLR 2019); this is torch's post-local
 * SGD without the warm-up.
 */
import { LocalSteps } from './localSteps.ts';
import { Replica } from './replica.ts';
import type { StrategyOptions } from './strategy.ts';

export class LocalSgd extends LocalSteps {
  static async create(options: StrategyOptions & { syncEvery: number }): Promise<LocalSgd> {
    // Parameters are exchanged in fp32: rounding them at every exchange would undo small changes.
    return new LocalSgd(await Replica.create(options), { ...options, codec: 'fp32', errorFeedback: false });
  }

  protected async exchange(): Promise<void> {
    await this.average(this.replica.parameters);
  }

  state(): readonly ArrayBufferView[] {
    return [this.replica.parameters];
  }
}
