/** Detects changes of a model's parameters that DistributedDataParallel did not make. */
import { UsageError } from '../../util/errors.ts';
import { versionOfVariable, type Variable } from './flatten.ts';

/** A weight was set, but the next step would undo the change. */
export class WeightChangeError extends UsageError {
  readonly weight: string;

  constructor(weight: string, rank: number) {
    super(
      `The weight "${weight}" of rank ${rank}'s model was set after this DistributedDataParallel last wrote it, by the ` +
        'program or by another wrapper of the model. The next step would undo the change. Call ' +
        '`await ddp.broadcastParameters(rank)` on every rank, with the rank whose weights all ranks shall have.',
      { rank },
    );
    this.weight = weight;
  }
}

/** Detects changes by versions of the variables. A write in place by another DDP counts, too. */
export class WeightChangeDetector {
  readonly #variables: readonly Variable[];
  #written: readonly object[] = [];

  constructor(variables: readonly Variable[]) {
    this.#variables = variables;
    this.accept();
  }

  /** Accepts the values that the variables have now. */
  accept(): void {
    this.#written = this.#variables.map(versionOfVariable);
  }

  /** The first variable that was written since {@link accept}, or `null`. */
  get changed(): Variable | null {
    return this.#variables.find((variable, i) => versionOfVariable(variable) !== this.#written[i]) ?? null;
  }

  /** @throws WeightChangeError if a variable was written since {@link accept}. */
  check(rank: number): void {
    if (this.changed) throw new WeightChangeError(this.changed.name, rank);
  }
}
