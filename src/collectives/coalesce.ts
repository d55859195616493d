/** Combines several tensors into one, so that small tensors do not cost a round trip each. */
import type { Clock } from '../util/clock.ts';
import { asError, UsageError } from '../util/errors.ts';
import { copyElements, dtypeOf, newZeros, tensorView, type TypedArray } from './dtypes.ts';
import type { OpOptions } from './options.ts';
import { displacementsOf, type Displacements } from './plans/plans.ts';
import { Work } from './work.ts';

/** Returns one array that contains all `parts`, each at its displacement. */
export function concatenateParts<T extends TypedArray>(parts: readonly T[], displacements: Displacements): T {
  const flat = newZeros(parts[0]!, displacements.at(-1)!);
  parts.forEach((part, i) => copyElements(flat, part, displacements[i]!));
  return flat;
}

/**
 * Returns the options for the collective on `flat`. Removes the option `dtype` unless `flat` is a
 * Uint16Array, because only a Uint16Array can hold halves.
 */
function forArray<Options extends OpOptions>(flat: TypedArray, options: Options): Options {
  return flat instanceof Uint16Array ? options : { ...options, dtype: undefined };
}

/** Returns copies of the parts of `flat`. */
export function splitAtDisplacements<T extends TypedArray>(flat: T, displacements: Displacements): T[] {
  return displacements.slice(1).map((end, i) => flat.slice(displacements[i], end) as T);
}

/**
 * Runs an in-place collective once per array type in `tensors`, on all arrays of that type
 * together.
 *
 * @param check checks the call for one array type and returns a function that issues the call. No
 * call is issued before all types are checked.
 * @throws UsageError if `tensors` is empty.
 */
export function runCoalesced<T extends readonly TypedArray[], Options extends OpOptions>(
  tensors: T,
  options: Options,
  clock: Clock,
  check: (flat: TypedArray, options: Options) => () => Work<TypedArray>,
): Work<T> {
  if (tensors.length === 0) throw new UsageError('A coalesced collective requires a non-empty list of tensors.');
  const kinds = new Map<unknown, TypedArray[]>();
  for (const tensor of tensors) {
    dtypeOf(tensor, forArray(tensor, options).dtype);
    kinds.set(tensor.constructor, [...(kinds.get(tensor.constructor) ?? []), tensor]);
  }
  const checked = Array.from(kinds.values(), (members) => {
    const displacements = displacementsOf(members.map(({ length }) => length));
    const flat = concatenateParts(members, displacements);
    const fill = (): void => members.forEach((member, i) => copyElements(flat, member, displacements[i]!));
    const after = options.after && Promise.resolve(options.after).then(fill);
    // If the call is rejected, nothing awaits `after`, so a rejection of `after` is handled here.
    after?.catch(() => {});
    return { members, displacements, flat, issue: check(flat, { ...forArray(flat, options), after }) };
  });
  const parts = checked.map(({ issue, ...part }) => ({ ...part, work: issue() }));
  const whole = new Work<T>(`a coalesced collective of ${tensors.length} tensors`, clock);
  const finish = async (): Promise<void> => {
    try {
      for (const { members, displacements, flat, work } of parts) {
        await work;
        whole.sent(work.bytesSent);
        members.forEach((member, i) =>
          copyElements(member, tensorView(flat, displacements[i]!, displacements[i + 1]!), 0),
        );
      }
      whole.complete(tensors);
    } catch (error) {
      whole.fail(asError(error));
    }
  };
  void finish();
  return whole;
}
