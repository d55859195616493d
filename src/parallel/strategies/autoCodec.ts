/** The codec of a ring that finds its own: the first steps of a world go as they are and are timed, then all ranks choose. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { chooseCodec, type ChosenCodec, type CodecChoice } from '../codecChoice.ts';
import type { StepReport } from './strategy.ts';

/** A world's first step waits for links and shaders, and is not timed. */
const LEFT_OUT = 1;
/** Steps that are: their median bears one that was disturbed, and at fp32 each may take seconds. */
const TIMED = 3;

export class AutoCodec {
  readonly #group: ProcessGroup;
  readonly #bytes: Record<ChosenCodec, number>;
  readonly #reports: StepReport[] = [];
  #isChosen: boolean;

  /** @param bytes of one gradient by each codec. */
  constructor(group: ProcessGroup, bytes: Record<ChosenCodec, number>) {
    this.#group = group;
    this.#bytes = bytes;
    this.#isChosen = group.worldSize === 1;
  }

  /** Each step of the world, on all ranks the same. */
  took(report: StepReport): void {
    if (!this.#isChosen) this.#reports.push(report);
  }

  /** Before a step. Every rank must call it. @returns what was chosen now. */
  async choose(): Promise<CodecChoice | null> {
    if (this.#isChosen || this.#reports.length < LEFT_OUT + TIMED) return null;
    const timed = this.#reports.slice(LEFT_OUT);
    const medianOf = (pick: (report: StepReport) => number): number =>
      timed.map(pick).sort((a, b) => a - b)[Math.floor(timed.length / 2)]!;
    const own = Float64Array.of(
      medianOf(({ compute, readback, update }) => compute + readback + update),
      medianOf(({ communicate }) => communicate),
      medianOf(({ exposed }) => exposed),
    );
    const all = await this.#group.allGather(own);
    this.#isChosen = true;
    const column = (i: number): number[] => all.map((row) => row[i]!);
    return chooseCodec(this.#group.worldSize, this.#bytes, {
      ownMs: Math.max(...column(0)),
      // Who waits for a slower rank takes that for communication: the one that waits least knows.
      communicateMs: Math.min(...column(1)),
      exposedMs: Math.min(...column(2)),
    });
  }
}
