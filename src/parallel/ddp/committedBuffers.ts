/**
 * A model's buffers as they were after the last step that was applied: passes change them, also
 * those of steps that then come to nothing.
 */
import { createLayout } from './buckets.ts';
import { TensorReader, writeVariables, type Tensor, type Variable } from './flatten.ts';

export class CommittedBuffers {
  readonly #variables: readonly Variable[];
  readonly #layout;
  /** Clones: they share the variables' data until those are assigned other. */
  #values: Tensor[];

  /** @param variables float32. */
  constructor(variables: readonly Variable[]) {
    this.#variables = variables;
    this.#layout = createLayout(variables.map(({ size }) => size));
    this.#values = variables.map((variable) => variable.clone());
  }

  /** Takes the variables as they are; tells whether any has changed. */
  commit(): boolean {
    const changed = this.#variables.map((variable, i) => variable.dataId !== this.#values[i]!.dataId);
    this.#values = this.#values.map((value, i) => {
      if (!changed[i]) return value;
      value.dispose();
      return this.#variables[i]!.clone();
    });
    return changed.includes(true);
  }

  /** Gives the variables back what they had; tells whether any had changed. */
  rollBack(): boolean {
    let isChanged = false;
    for (const [i, variable] of this.#variables.entries()) {
      if (variable.dataId === this.#values[i]!.dataId) continue;
      variable.assign(this.#values[i]!);
      isChanged = true;
    }
    return isChanged;
  }

  /** All of them, flat, as they are when it is called. */
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

  /** Makes what {@link read} gave the variables' values, and commits them. */
  write(flat: Float32Array<ArrayBuffer>): void {
    writeVariables(this.#variables, this.#layout.slots, flat);
    this.commit();
  }

  dispose(): void {
    for (const value of this.#values) value.dispose();
  }
}
