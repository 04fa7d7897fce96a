package mongodb

import (
	"encoding/binary"
	"math"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// What is written for every reading is put together byte by byte: by
// reflection it costs the service more than all the rest of a reading's way.

// Begin opens a document and returns where its length belongs.
func Begin(dst []byte) ([]byte, int) { return append(dst, 0, 0, 0, 0), len(dst) }

// BeginIn opens a document or an array as the element key of another.
func BeginIn(dst []byte, t bson.Type, key string) ([]byte, int) {
	return Begin(AppendKey(dst, t, key))
}

// End closes the document or array that was opened at that place.
func End(dst []byte, at int) []byte {
	dst = append(dst, 0)
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at))
	return dst
}

// AppendKey appends what stands before a value.
func AppendKey(dst []byte, t bson.Type, key string) []byte {
	return append(append(append(dst, byte(t)), key...), 0)
}

// AppendIndex appends what stands before value i of an array.
func AppendIndex(dst []byte, t bson.Type, i int) []byte {
	return append(strconv.AppendInt(append(dst, byte(t)), int64(i), 10), 0)
}

// AppendString appends a text.
func AppendString(dst []byte, key, s string) []byte {
	dst = AppendKey(dst, bson.TypeString, key)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(s)+1))
	return append(append(dst, s...), 0)
}

// AppendUUID appends a computed _id, or what refers to one.
func AppendUUID(dst []byte, key string, id [16]byte) []byte {
	dst = AppendKey(dst, bson.TypeBinary, key)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(id)))
	return append(append(dst, bson.TypeBinaryUUID), id[:]...)
}

// AppendDate appends a time in ms since 1970.
func AppendDate(dst []byte, key string, ms int64) []byte {
	return binary.LittleEndian.AppendUint64(AppendKey(dst, bson.TypeDateTime, key), uint64(ms))
}

// AppendBool appends true or false.
func AppendBool(dst []byte, key string, v bool) []byte {
	if v {
		return append(AppendKey(dst, bson.TypeBoolean, key), 1)
	}
	return append(AppendKey(dst, bson.TypeBoolean, key), 0)
}

// AppendInt32 appends a whole number.
func AppendInt32(dst []byte, key string, n int32) []byte {
	return binary.LittleEndian.AppendUint32(AppendKey(dst, bson.TypeInt32, key), uint32(n))
}

// AppendFloat appends a double.
func AppendFloat(dst []byte, key string, v float64) []byte {
	return binary.LittleEndian.AppendUint64(AppendKey(dst, bson.TypeDouble, key), math.Float64bits(v))
}

// AppendInt32s appends an array of whole numbers.
func AppendInt32s(dst []byte, key string, list []int32) []byte {
	dst, array := BeginIn(dst, bson.TypeArray, key)
	for i, n := range list {
		dst = binary.LittleEndian.AppendUint32(AppendIndex(dst, bson.TypeInt32, i), uint32(n))
	}
	return End(dst, array)
}

// AppendFloats appends an array of doubles.
func AppendFloats(dst []byte, key string, list []float64) []byte {
	dst, array := BeginIn(dst, bson.TypeArray, key)
	for i, v := range list {
		dst = binary.LittleEndian.AppendUint64(AppendIndex(dst, bson.TypeDouble, i), math.Float64bits(v))
	}
	return End(dst, array)
}

// AppendValue appends a value as it was read.
func AppendValue(dst []byte, key string, v bson.RawValue) []byte {
	return append(AppendKey(dst, v.Type, key), v.Value...)
}

// AppendDocument appends a document that is put together already.
func AppendDocument(dst []byte, key string, doc bson.Raw) []byte {
	return append(AppendKey(dst, bson.TypeEmbeddedDocument, key), doc...)
}
