/** One end of a case of the link contract, on the thread of its link. */
import type { Link } from '../../src/transport/link.ts';
import { LINK_CASES } from '../transport/linkCompliance.ts';

export type End = 'alice' | 'bob';

/** Resolves once the end has passed its case. */
export async function runEnd(name: string, end: End, opening: Promise<Link>): Promise<void> {
  const linkCase = LINK_CASES.find((candidate) => candidate.name === name)!;
  await linkCase[end](await opening);
}
