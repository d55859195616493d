/**
 * Receives data files and shows their content. Either every tab chooses files, or the host shares
 * them.
 */
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import type { FilesJob } from '../../spec/job.ts';
import { jobHasPreview } from '../../spec/preview.ts';
import { formatBytes } from '../locales/format.ts';
import type { TabView } from '../state/view.ts';
import { uiMessages } from '../locales/index.ts';
import { DropZone } from '../components/DropZone.tsx';
import { FilesPreview } from './FilesPreview.tsx';

/** The number of files whose names are listed. A folder may have thousands of files. */
const LISTED = 6;
/** Names of IDX files. Images and labels are separate files. */
const IDX = /idx|ubyte/i;

interface Props {
  job: FilesJob;
  view: TabView;
  onfiles: (files: File[]) => void;
  /** Content below the list. */
  children: ComponentChildren;
}

export function FileDrop({ job, view: { files: found, opening }, onfiles, children }: Props) {
  const { files: labels } = uiMessages.value.lobby;
  const files = useSignal<File[]>([]);
  const take = (picked: File[]): void => {
    // Images and labels may be dropped one after the other. A new file replaces an earlier file of
    // the same name. Files of another kind replace all earlier files.
    const isPair = (job === 'mnist' || job === 'images') && picked.every(({ name }) => IDX.test(name));
    const kept = isPair ? files.peek().filter(({ name }) => IDX.test(name)) : [];
    files.value = [...new Map([...kept, ...picked].map((file) => [file.name, file])).values()];
    onfiles(files.peek());
  };
  return (
    <DropZone
      choose={labels.choose[job]}
      chooseFolder={job === 'images' ? labels.chooseFolder : undefined}
      hint={labels.drop[job]}
      onfiles={take}
    >
      {files.value.length > 0 && (
        <ul class="plain small">
          {files.value.slice(0, LISTED).map((file) => (
            <li key={file.name}>
              <span class="good" aria-hidden="true">
                ✓
              </span>{' '}
              {file.name} <span class="dim">{formatBytes(file.size)}</span>
            </li>
          ))}
          {files.value.length > LISTED && <li class="dim">+ {labels.count(files.value.length - LISTED)}</li>}
        </ul>
      )}
      {children}
      {found !== null && (found.preview === null ? jobHasPreview(job) : found.preview.kind === job) && (
        <FilesPreview {...found} opening={opening} />
      )}
    </DropZone>
  );
}
