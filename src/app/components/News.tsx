/** A sentence of the engine: in the page's language if it is a notice, otherwise in English. */
import { textOf, type Notice } from '../../protocol/notices.ts';
import { messages } from '../locales/index.ts';

export function News({ message, notice }: { message: string; notice?: Notice | undefined }) {
  return notice === undefined ? <span lang="en">{message}</span> : <>{textOf(notice, messages.value.run.notices)}</>;
}
