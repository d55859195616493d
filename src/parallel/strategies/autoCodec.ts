/**
 * Measures steps and chooses the codec: the first steps of a generation use fp32 and are timed,
 * then all ranks choose.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { CodecChoice } from '../../protocol/runResult.ts';
import { median } from '../../util/statistics.ts';
import type { EncodedGradients } from '../costs/exchangeCosts.ts';
import { chooseCodec, isBeyondDoubt, type MeasuredSteps } from '../costs/codecChoice.ts';
import type { StepReport } from '../recovery/strategy.ts';

/**
 * Number of steps before the timed steps. The first step of a generation may take longer, because
 * shaders are compiled and links have not reached their full speed. If this step alone shows
 * clearly that a codec with rounding is better, that codec is chosen at once. fp32 is chosen only
 * after timed steps.
 */
const FIRST = 1;
/**
 * Largest number of timed steps. The median of three tolerates one outlier. More steps would take
 * too long, because a step with fp32 may take seconds.
 */
const TIMED = 3;

export class AutoCodec {
  readonly #group: ProcessGroup;
  readonly #gradients: EncodedGradients;
  readonly #reports: StepReport[] = [];
  #isChosen: boolean;

  constructor(group: ProcessGroup, gradients: EncodedGradients) {
    this.#group = group;
    this.#gradients = gradients;
    this.#isChosen = group.worldSize === 1;
  }

  /** Records a step. Every rank must record the same step. */
  record(report: StepReport): void {
    if (!this.#isChosen) this.#reports.push(report);
  }

  /**
   * Called before each step. Every rank must call it.
   *
   * @returns the choice, once, when it is certain enough or enough steps are timed; otherwise
   * `null`.
   */
  async choose(): Promise<CodecChoice | null> {
    const { length } = this.#reports;
    if (this.#isChosen || length === 0) return null;
    const { worldSize } = this.#group;
    const steps = await this.#measured();
    const choice = chooseCodec(worldSize, this.#gradients, steps);
    const isKnown = isBeyondDoubt(worldSize, this.#gradients, steps) && (length > FIRST || choice.codec !== 'fp32');
    if (!isKnown && length < FIRST + TIMED) return null;
    this.#isChosen = true;
    return choice;
  }

  async #measured(): Promise<MeasuredSteps> {
    const timed = this.#reports.length > FIRST ? this.#reports.slice(FIRST) : this.#reports;
    const medianOf = (pick: (report: StepReport) => number): number => median(timed.map(pick));
    const own = Float64Array.of(
      medianOf(({ compute, readback, update }) => compute + readback + update),
      medianOf(({ communicate }) => communicate),
      medianOf(({ exposed }) => exposed),
    );
    const all = await this.#group.allGather(own);
    const column = (i: number): number[] => all.map((row) => row[i]!);
    return {
      ownMs: Math.max(...column(0)),
      // A rank that waits for a slower rank measures its wait as communication, so the shortest
      // time of all ranks is used.
      communicateMs: Math.min(...column(1)),
      exposedMs: Math.min(...column(2)),
    };
  }
}
