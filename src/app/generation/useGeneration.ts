/** A hook that asks the model to continue a prompt, one request at a time. */
import { useRef, useState } from 'preact/hooks';
import { generated, type GeneratedText } from '../state/modelAnswers.ts';
import { ask } from '../state/store.ts';

interface Request {
  prompt: string;
  temperature: number;
}

/** The id of the latest request of this page. Answers to earlier requests are ignored. */
let lastId = 0;

export interface GenerationState {
  /** The latest answer, with its prompt. */
  last: (GeneratedText & { prompt: string }) | null;
  isPending: boolean;
  generate: (request: Request) => void;
}

export function useGeneration(): GenerationState {
  const [asked, setAsked] = useState<(Request & { id: number }) | null>(null);
  const answered = useRef<GenerationState['last']>(null);
  const newest = generated.value;
  const isPending = asked !== null && newest?.id !== asked.id;
  if (asked !== null && newest !== null && !isPending) answered.current = { ...newest, prompt: asked.prompt };
  return {
    last: answered.current,
    isPending,
    generate: (request) => {
      lastId += 1;
      setAsked({ ...request, id: lastId });
      ask({ type: 'generate', id: lastId, ...request });
    },
  };
}
