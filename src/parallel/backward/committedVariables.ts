/**
 * Copies of variables, taken after the latest applied step. They are restored if the next step
 * fails, because that step's forward pass has changed the model's buffers, and its optimizer may
 * have changed parameters.
 */
import { createFlatLayout } from '../flat/buckets.ts';
import { TensorReader, writeVariables, type Tensor, type Variable } from './flatten.ts';

export class CommittedVariables {
  readonly #variables: readonly Variable[];
  readonly #layout;
  /** Clones of the variables. A clone shares its variable's data until the variable is assigned. */
  #values: Tensor[];

  /** @param variables variables with dtype float32. */
  constructor(variables: readonly Variable[]) {
    this.#variables = variables;
    this.#layout = createFlatLayout(variables.map(({ size }) => size));
    this.#values = variables.map((variable) => variable.clone());
  }

  /** Commits the current values; returns whether they differ from those committed before. */
  commit(): boolean {
    const changed = this.#variables.map((variable, i) => variable.dataId !== this.#values[i]!.dataId);
    this.#values = this.#values.map((value, i) => {
      if (!changed[i]) return value;
      value.dispose();
      return this.#variables[i]!.clone();
    });
    return changed.includes(true);
  }

  /** Restores the committed values; returns whether the current values differed from them. */
  rollBack(): boolean {
    let isChanged = false;
    for (const [i, variable] of this.#variables.entries()) {
      if (variable.dataId === this.#values[i]!.dataId) continue;
      variable.assign(this.#values[i]!);
      isChanged = true;
    }
    return isChanged;
  }

  /** Returns all committed values in one flat array, as they are at the time of the call. */
  async read(): Promise<Float32Array<ArrayBuffer>> {
    const { slots, size } = this.#layout;
    const flat = new Float32Array(size);
    const tensors = slots.map(({ parameter }) => this.#values[parameter]!.clone());
    const reader = new TensorReader();
    try {
      if (size > 0) await reader.read(0, tensors, flat);
      return flat;
    } finally {
      reader.dispose();
      for (const tensor of tensors) tensor.dispose();
    }
  }

  /** Assigns the values of {@link read} to the variables and commits them. */
  write(flat: Float32Array<ArrayBuffer>): void {
    writeVariables(this.#variables, this.#layout.slots, flat);
    this.commit();
  }

  dispose(): void {
    for (const value of this.#values) value.dispose();
  }
}
