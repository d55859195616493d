/** Downloads what this rank's flight recorder holds: to see, file beside file, which rank waited for which. */
import { downloadRecording } from '../state/store.ts';
import { words } from '../locales/index.ts';

export function RecordingButton() {
  return (
    <button type="button" class="quiet" title={words.value.shell.recordingAbout} onClick={downloadRecording}>
      {words.value.shell.recording}
    </button>
  );
}
