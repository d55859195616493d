/**
 * Maps items with an asynchronous function, at most `limit` at the same time. After a failure, no
 * further item is begun.
 *
 * @throws (rejects) the first error of `map`.
 */
export async function mapConcurrently<T, R>(
  items: readonly T[],
  limit: number,
  map: (item: T, index: number) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next++; at < items.length; at = next++) results[at] = await map(items[at]!, at);
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, work)).finally(() => (next = Infinity));
  return results;
}
